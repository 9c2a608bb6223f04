"""Every method of every manifold refuses what metadata shows to be wrong: the argument, what came, what is expected."""

import geoopt
import pytest
import torch

import hgeo

MANIFOLDS = {"ball": hgeo.PoincareBall(), "lorentz": hgeo.Lorentz(), "klein": hgeo.Klein()}
TWO = {
    "dist": lambda m, x, y: m.dist(x, y),
    "expmap": lambda m, x, u: m.expmap(x, u),
    "logmap": lambda m, x, y: m.logmap(x, y),
    "transp": lambda m, x, v: m.transp(x, x, v),
    "inner": lambda m, x, u: m.inner(x, u),
    "egrad2rgrad": lambda m, x, u: m.egrad2rgrad(x, u),
}


@pytest.mark.parametrize("name", MANIFOLDS)
@pytest.mark.parametrize("method", TWO)
def test_integers_other_sizes_and_other_devices_are_refused(name, method):
    manifold, call = MANIFOLDS[name], TWO[method]
    x = hgeo.exp0(manifold, torch.full((2, 3), 0.1))
    with pytest.raises(TypeError, match=r"is a torch\.int64 tensor; points and vectors are floating-point"):
        call(manifold, x.long(), x)
    with pytest.raises(ValueError, match=r"vectors must have one size along dim=-1, got .*\(2, 1\)"):
        call(manifold, x, x[:, :1])
    with pytest.raises(ValueError, match="is on meta, the first argument on cpu; move them to one device"):
        call(manifold, x, x.to("meta"))


@pytest.mark.parametrize("manifold", [*MANIFOLDS.values(), geoopt.Euclidean(1), geoopt.Sphere()], ids=repr)
def test_the_origin_frame_refuses_integers_by_name(manifold):
    whole = torch.zeros(2, 3, dtype=torch.int64)
    with pytest.raises(TypeError, match=r"exp0: 'v' is a torch\.int64 tensor"):
        hgeo.exp0(manifold, whole)
    with pytest.raises(TypeError, match=r"log0: 'x' is a torch\.int64 tensor"):
        hgeo.log0(manifold, whole)
    with pytest.raises(TypeError, match=r"dist: 'y' is a torch\.int64 tensor"):
        hgeo.dist(manifold, whole.float(), whole)
