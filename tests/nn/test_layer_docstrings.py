"""Every layer's docstring says the formula, the limit without curvature, and shows an example that runs."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest
import torch

import hgeo.nn

MODULES = [f"hgeo.nn.{part.name}" for part in pkgutil.iter_modules(hgeo.nn.__path__)]
LAYERS = [name for name in hgeo.nn.__all__ if name[0].isupper() and name not in ("Attention", "DECODERS", "Sequential")]


@pytest.mark.parametrize("name", MODULES)
def test_its_examples_run(name: str) -> None:
    torch.manual_seed(0)
    assert doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS).failed == 0


@pytest.mark.parametrize("name", LAYERS)
def test_it_has_an_equation_a_limit_shapes_and_an_example(name: str) -> None:
    text = getattr(hgeo.nn, name).__doc__
    for part in (":math:", "c → 0", "Shapes:", ">>> "):
        assert part in text or (part == ":math:" and ".. math::" in text), f"{name} lacks {part!r}"
