"""Every example in the docstrings of hgeo.math, hgeo.manifolds and hgeo.optim runs and gives what it shows."""

import doctest
import importlib
import pkgutil

import pytest
import torch

ROOMS = ("hgeo.math", "hgeo.manifolds", "hgeo.optim")
MODULES = [
    name
    for room in ROOMS
    for name in (
        room,
        *[f"{room}.{part.name}" for part in pkgutil.iter_modules(importlib.import_module(room).__path__)],
    )
]


@pytest.mark.parametrize("name", MODULES)
def test_its_examples_run(name):
    torch.manual_seed(0)
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    result = doctest.testmod(importlib.import_module(name), optionflags=flags)
    assert result.failed == 0


def test_there_are_examples_in_every_room():
    for room in ROOMS:
        finder = doctest.DocTestFinder()
        examples = [
            example
            for name in MODULES
            if name.startswith(room)
            for test in finder.find(importlib.import_module(name))
            for example in test.examples
        ]
        assert len(examples) >= 5, room
