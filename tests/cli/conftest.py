"""What tests of the commands share."""

from pathlib import Path

import pytest

import hgeo


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """An empty folder, in which the command is given."""
    monkeypatch.chdir(tmp_path)
    # for `python -m hgeo` from a source tree that is not installed
    monkeypatch.setenv("PYTHONPATH", str(Path(hgeo.__file__).parents[1]))
    return tmp_path
