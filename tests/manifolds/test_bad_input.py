"""Every method of every manifold refuses what metadata shows to be wrong: the argument, what came, what is expected."""

import geoopt
import numpy as np
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


def test_an_argument_that_is_no_tensor_is_named_in_the_error():
    for given, kind in ((np.zeros(2), "ndarray"), ([0.0, 0.0], "list")):
        for manifold in MANIFOLDS.values():
            with pytest.raises(TypeError, match=f"exp0: 'v': expected a torch tensor, got {kind}"):
                hgeo.exp0(manifold, given)
            with pytest.raises(TypeError, match=f"log0: 'x': expected a torch tensor, got {kind}"):
                hgeo.log0(manifold, given)
        with pytest.raises(TypeError, match=rf"lorentz_project: 'x': expected a torch tensor, got {kind}"):
            hgeo.Lorentz().projx(given)


def test_the_dimension_of_a_factor_is_a_whole_number():
    assert hgeo.Product((hgeo.PoincareBall(), np.int64(2))).dims == (2,)
    with pytest.raises(TypeError, match=r"a factor of a product is a pair"):
        hgeo.Product((hgeo.PoincareBall(), True))
