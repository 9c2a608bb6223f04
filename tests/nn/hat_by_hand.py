"""The paper's layer written from its equations: plain loops over nodes and neighbours, the formulas as printed.

(Where the paper misprints, the right formula: the direction in the Möbius matrix product, 1/√c in the logarithm.)
Only torch's autograd is used, for the gradients; nothing of hgeo.
"""

import torch


def exp0(v, c):
    n = v.norm()
    return v if c == 0 or n == 0 else torch.tanh(c**0.5 * n) * v / (c**0.5 * n)


def log0(h, c):
    n = h.norm()
    return h if c == 0 or n == 0 else torch.atanh(c**0.5 * n) * h / (c**0.5 * n)


def add(x, y, c):
    xy, xx, yy = x @ y, x @ x, y @ y
    return ((1 + 2 * c * xy + c * yy) * x + (1 - c * xx) * y) / (1 + 2 * c * xy + c * c * xx * yy)


def distance(x, y, c):
    gap = add(-x, y, c).norm()
    return 2 * gap if c == 0 else 2 / c**0.5 * torch.atanh(c**0.5 * gap)


def matvec(m, p, c):
    if c == 0:
        return m @ p
    image = m @ p
    size = torch.tanh(image.norm() / p.norm() * torch.atanh(c**0.5 * p.norm())) / c**0.5
    return size * image / image.norm()


def scale(r, h, c):
    return exp0(r * log0(h, c), c)


def conformal(x, c):
    return 2 / (1 - c * x @ x)


def midpoint(points, weights, c):
    top = sum(w * conformal(x, c) * x for w, x in zip(weights, points, strict=True))
    bottom = sum(w * (conformal(x, c) - 1) for w, x in zip(weights, points, strict=True))
    return scale(0.5, top / bottom, c)


def hat(
    edges,
    num_dst,
    x,
    weight,
    c,
    *,
    heads=1,
    merge="concat",
    aggregate="tangent",
    steps=1,
    restart=0.0,
    beta=1.0,
    attention="distance",
    radius_norm=False,
    self_score="zero",
    degree_norm=False,
    activation=None,
    activation_space="ball",
    tangent_bias=None,
    point_bias=None,
    edge_bias=None,
):
    """(num_dst, …) output points and {(edge number or ("loop", i)): (attentions,) weight}."""
    num_src = x.shape[0]
    matrices = weight.reshape(heads, -1, x.shape[1])
    # project
    h = [[matvec(m, exp0(f, c), c) for m in matrices] for f in x]
    scored = h
    if radius_norm:
        means = [sum(log0(h[j][a], c).norm() for j in range(num_src)) / num_src for a in range(heads)]
        scored = [[exp0(log0(h[j][a], c) / means[a], c) for a in range(heads)] for j in range(num_src)]
    # neighbourhoods: in-edges in the order of source ids, and the loop where it is missing
    neighbours = []
    for i in range(num_dst):
        mine = [(s, e) for e, (s, d) in enumerate(edges) if d == i]
        if all(s != i for s, _ in mine):
            mine.append((i, ("loop", i)))
        neighbours.append(sorted(mine, key=lambda pair: pair[0]))
    out_degree = [sum(s == j for mine in neighbours for s, _ in mine) for j in range(num_src)]
    # attend
    attentions = 1 if merge == "product" else heads
    weights = {}
    for i, mine in enumerate(neighbours):
        for a in range(attentions):
            d = []
            for j, _ in mine:
                if attention == "uniform" or j == i:
                    d.append(x.new_zeros(()))
                elif merge == "product":
                    d.append(sum(distance(scored[i][b], scored[j][b], c) ** 2 for b in range(heads)) ** 0.5)
                else:
                    d.append(distance(scored[i][a], scored[j][a], c))
            if self_score == "mean":
                others = [value for value, (j, _) in zip(d, mine, strict=True) if j != i]
                mean = sum(others) / len(others) if others else x.new_zeros(())
                d = [mean if j == i else value for value, (j, _) in zip(d, mine, strict=True)]
            scores = [-beta * value for value in d]
            if edge_bias is not None:
                scores = [
                    s + (edge_bias[e] if not isinstance(e, tuple) else 0.0)
                    for s, (_, e) in zip(scores, mine, strict=True)
                ]
            mass = torch.stack(scores).exp()
            for m, (_, e) in zip(mass / mass.sum(), mine, strict=True):
                weights.setdefault(e, []).append(m)
    # aggregate, a head at a time; all steps but the last are walked here
    values = h
    for _ in range(steps - 1):
        values = [
            [
                exp0(
                    (1 - restart)
                    * sum(
                        weights[e][a if attentions > 1 else 0]
                        * ((len(mine) / out_degree[j]) ** 0.5 if degree_norm else 1)
                        * log0(values[j][a], c)
                        for j, e in mine
                    )
                    + restart * log0(h[i][a], c),
                    c,
                )
                for a in range(heads)
            ]
            for i, mine in enumerate(neighbours)
        ]
    rows = []
    for i, mine in enumerate(neighbours):
        aggregated = []
        for a in range(heads):
            w = [weights[e][a if attentions > 1 else 0] for _, e in mine]
            if degree_norm:
                w = [m * (len(mine) / out_degree[j]) ** 0.5 for m, (j, _) in zip(w, mine, strict=True)]
            points = [values[j][a] for j, _ in mine]
            if aggregate == "tangent":
                walked = sum(log0(scale(m, p, c), c) for m, p in zip(w, points, strict=True))
                result = exp0(walked if steps == 1 else (1 - restart) * walked + restart * log0(h[i][a], c), c)
            elif aggregate == "mobius":
                result = scale(w[0], points[0], c)
                for m, p in zip(w[1:], points[1:], strict=True):
                    result = add(result, scale(m, p, c), c)
            else:
                result = midpoint(points, w, c)
            aggregated.append(result)
        rows.append(aggregated)
    # merge, bias, activate
    outputs = []
    for aggregated in rows:
        if merge == "concat":
            parts = [exp0(torch.cat([log0(p, c) for p in aggregated]), c)]
        elif merge == "mean":
            parts = [exp0(sum(log0(p, c) for p in aggregated) / heads, c)]
        else:
            parts = aggregated
        size = parts[0].shape[0]
        if tangent_bias is not None:
            biases = tangent_bias.split(size)
            parts = [exp0(log0(p, c) + b, c) for p, b in zip(parts, biases, strict=True)]
        if point_bias is not None:
            parts = [add(p, b, c) for p, b in zip(parts, point_bias.split(size), strict=True)]
        if activation is not None and activation_space == "ball":
            parts = [activation(p) for p in parts]
        elif activation is not None:
            parts = [exp0(activation(log0(p, c)), c) for p in parts]
        outputs.append(torch.cat(parts))
    return torch.stack(outputs), weights
