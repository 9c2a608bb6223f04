"""Sphinx configuration: the documentation is built from the docstrings and a few guides."""

import re
from typing import Any

import hgeo

project = "hgeo"
author = "The hgeo developers"
release = hgeo.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # formulas need no network
    "sphinx.ext.viewcode",
]
html_theme = "furo"
html_title = f"hgeo {release}"

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_default_options = {"members": True, "undoc-members": False}
napoleon_google_docstring = True
napoleon_use_ivar = True

exclude_patterns = ["_build"]


def escape_bars(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """|x| is a norm in our docstrings, and a substitution in reStructuredText: escape it outside of math and code."""
    block = None  # the indentation of a math block that we are in
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if block is not None and line.strip() and indent <= block:
            block = None
        if line.lstrip().startswith(".. math::"):
            block = indent
        elif block is None and not line.lstrip().startswith((">>>", "...")):
            pieces = re.split(r"(``.*?``|`.*?`)", line)
            lines[number] = "".join(p if p.startswith("`") else p.replace("|", r"\|") for p in pieces)


def setup(app: Any) -> None:
    # After napoleon, which reads the docstring's sections.
    app.connect("autodoc-process-docstring", escape_bars, priority=900)
