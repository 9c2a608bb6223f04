"""Arrays in, arrays out: compiled loops. Knows no manifold and no graph."""
