"""Importing hgeo is silent, loads only what is needed, and does not depend on dgl."""

import os
import subprocess
import sys

import pytest


def run(program, *flags, **environment):
    return subprocess.run(
        [sys.executable, *flags, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


def test_importing_hgeo_gives_no_warning():
    done = run("import hgeo; hgeo.PoincareBall; hgeo.optim", "-W", "error")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_importing_hgeo_loads_no_heavy_library():
    program = """
import sys, hgeo
loaded = {"geoopt", "dgl", "numba", "sklearn", "matplotlib", "scipy"} & set(sys.modules)
assert not loaded, loaded
hgeo.PoincareBall()
loaded = {"dgl", "numba", "sklearn", "matplotlib"} & set(sys.modules)
assert "geoopt" in sys.modules and not loaded, loaded
"""
    done = run(program)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "breakage",
    [
        "sys.modules['dgl'] = None",
        """
class Broken:
    def find_spec(self, name, path=None, target=None):
        if name == "dgl" or name.startswith("dgl."):
            raise OSError("libdgl.so: cannot open shared object file")
sys.meta_path.insert(0, Broken())""",
    ],
    ids=["missing", "broken"],
)
def test_it_works_without_dgl(breakage):
    program = f"""
import sys
{breakage}
import torch, hgeo
graph = torch.tensor([[0, 1], [1, 0]])
ball = hgeo.PoincareBall()
x = hgeo.exp0(ball, torch.ones(2, 3))
layer = hgeo.nn.HATConv(3, 2, ball)
assert layer(graph, x).shape == (2, 2)
hgeo.optim.riemannian_adam(layer).step()
from hgeo.data import load
from hgeo.models import build, names
karate = load("karate")
for name in names():
    assert build(name, karate)(karate.graph, karate.features).shape == (34, 2)
"""
    done = run(program)
    assert done.returncode == 0, done.stderr


def test_functions_that_need_dgl_say_so_where_it_is_missing():
    program = """
import sys
sys.modules["dgl"] = sys.modules["dgl.nn.pytorch"] = None
from hgeo.data import load
from hgeo.models import shallow
karate = load("karate")
for call in (karate.dgl, lambda: shallow("deepwalk", 2).fit(karate)):
    try:
        call()
    except ImportError as error:
        print(error)
"""
    done = run(program)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    for line, need in zip(lines, ("Dataset.dgl()", "a random walk"), strict=True):
        assert line.startswith("dgl cannot be imported (ModuleNotFoundError")
        assert f"{need}" in line
        assert "pip install dgl==1.1.3" in line


def test_an_unknown_name_is_an_attribute_error():
    import hgeo

    with pytest.raises(AttributeError, match="'hgeo' has no attribute 'Poincare'"):
        _ = hgeo.Poincare
    assert {"PoincareBall", "math", "optim", "exp0"} <= set(dir(hgeo))
