"""What holds for every function of hgeo.math, case by case: derivatives, compilation, batching, devices, dtypes."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import gradcheck, gradgradcheck

import hgeo.math as hm

# name -> (shapes of the tensor arguments, how to call it, what its curvature is)
# "k" is any signed curvature, "c" positive and hyperbolic, "s" positive and spherical. Points come first and lie well
# inside the ball of k = -0.7.
V = (3,)


def lift(x, c):
    """A point of the hyperboloid."""
    return hm.ball_to_lorentz(x, c=c)


CASES = {
    "tan_k": ([()], lambda k, x: hm.tan_k(x, k=k), "k"),
    "artan_k": ([()], lambda k, x: hm.artan_k(x, k=k), "k"),
    "sin_k": ([()], lambda k, x: hm.sin_k(x, k=k), "k"),
    "arsin_k": ([()], lambda k, x: hm.arsin_k(x, k=k), "k"),
    "cos_k": ([()], lambda k, x: hm.cos_k(x, k=k), "k"),
    "lambda_x": ([V], lambda k, x: hm.lambda_x(x, k=k), "k"),
    "project": ([V], lambda k, x: hm.project(x, k=k), "k"),
    "inner": ([V, V, V], lambda k, x, u, v: hm.inner(x, u, v, k=k), "k"),
    "norm": ([V, V], lambda k, x, u: hm.norm(x, u, k=k), "k"),
    "egrad2rgrad": ([V, V], lambda k, x, u: hm.egrad2rgrad(x, u, k=k), "k"),
    "mobius_add": ([V, V], lambda k, x, y: hm.mobius_add(x, y, k=k), "k"),
    "mobius_sub": ([V, V], lambda k, x, y: hm.mobius_sub(x, y, k=k), "k"),
    "mobius_coadd": ([V, V], lambda k, x, y: hm.mobius_coadd(x, y, k=k), "k"),
    "mobius_cosub": ([V, V], lambda k, x, y: hm.mobius_cosub(x, y, k=k), "k"),
    "mobius_scalar_mul": ([V, ()], lambda k, x, r: hm.mobius_scalar_mul(r, x, k=k), "k"),
    "mobius_matvec": ([V, (2, 3)], lambda k, x, m: hm.mobius_matvec(m, x, k=k), "k"),
    "mobius_pointwise_mul": ([V, V], lambda k, x, w: hm.mobius_pointwise_mul(w, x, k=k), "k"),
    "mobius_fn_apply": ([V], lambda k, x: hm.mobius_fn_apply(torch.sin, x, k=k), "k"),
    "gyration": ([V, V, V], lambda k, a, b, u: hm.gyration(a, b, u, k=k), "k"),
    "expmap": ([V, V], lambda k, x, u: hm.expmap(x, u, k=k), "k"),
    "logmap": ([V, V], lambda k, x, y: hm.logmap(x, y, k=k), "k"),
    "expmap0": ([V], lambda k, u: hm.expmap0(u, k=k), "k"),
    "logmap0": ([V], lambda k, x: hm.logmap0(x, k=k), "k"),
    "geodesic": ([V, V, ()], lambda k, x, y, t: hm.geodesic(t, x, y, k=k), "k"),
    "geodesic_unit": ([V, V, ()], lambda k, x, u, t: hm.geodesic_unit(t, x, u, k=k), "k"),
    "parallel_transport": ([V, V, V], lambda k, x, y, v: hm.parallel_transport(x, y, v, k=k), "k"),
    "parallel_transport0": ([V, V], lambda k, y, v: hm.parallel_transport0(y, v, k=k), "k"),
    "parallel_transport0back": ([V, V], lambda k, x, v: hm.parallel_transport0back(x, v, k=k), "k"),
    "dist": ([V, V], lambda k, x, y: hm.dist(x, y, k=k), "k"),
    "sqdist": ([V, V], lambda k, x, y: hm.sqdist(x, y, k=k), "k"),
    "dist0": ([V], lambda k, x: hm.dist0(x, k=k), "k"),
    "dist2plane": ([V, V, V], lambda k, x, p, a: hm.dist2plane(x, p, a, k=k, signed=True, scaled=True), "k"),
    "antipode": ([V], lambda k, x: hm.antipode(x, k=k), "k"),
    "weighted_midpoint": ([(4, 3)], lambda k, x: hm.weighted_midpoint(x, torch.ones_like(x.sum(-1)), k=k), "k"),
    "segment_midpoint": (
        [(4, 3)],
        lambda k, x: hm.segment_midpoint(x, torch.ones_like(x.sum(-1)), torch.arange(4, device=x.device) // 2, 2, k=k),
        "k",
    ),
    "centroid": ([V, (1,)], lambda k, v, t: hm.centroid(v, 1.5 + t, 1 + t, k=k), "k"),
    "kept_expmap0": ([V], lambda k, u: hm.kept_expmap0(u, k=k), "k"),
    "kept_lorentz_expmap0": ([V], lambda c, v: hm.kept_lorentz_expmap0(v, c=c), "c"),
    "translated_row": ([V, V], lambda k, u, w: hm.translated_row(u, w, k=k), "k"),
    "lifted_row": ([V, ()], lambda k, u, w: hm.lifted_row(u, w, k=k), "k"),
    "lowered_row": (
        [(4, 3)],
        lambda k, u: hm.lowered_row(hm.lifted_row(u, 0.5, k=k).sum(0), u.sum() * 0 + 2, k=k),
        "k",
    ),
    "ball_to_lorentz": ([V], lambda c, x: hm.ball_to_lorentz(x, c=c), "c"),
    "lorentz_to_ball": ([V], lambda c, x: hm.lorentz_to_ball(hm.ball_to_lorentz(x, c=c), c=c) * x, "c"),
    "ball_to_klein": ([V], lambda c, x: hm.ball_to_klein(x, c=c), "c"),
    "klein_to_ball": ([V], lambda c, x: hm.klein_to_ball(x, c=c), "c"),
    "lorentz_expmap0": ([V], lambda c, v: hm.lorentz_expmap0(v, c=c), "c"),
    "lorentz_logmap0": ([V], lambda c, x: hm.lorentz_logmap0(x, c=c), "c"),
    "lorentz_dist": ([V, V], lambda c, x, y: hm.lorentz_dist(x, y, c=c), "c"),
    "lorentz_dist0": ([V], lambda c, x: hm.lorentz_dist0(lift(x, c), c=c), "c"),
    "lorentz_expmap": ([V, (4,)], lambda c, x, u: hm.lorentz_expmap(lift(x, c), u, c=c, tangent=False), "c"),
    "lorentz_logmap": ([V, V], lambda c, x, y: hm.lorentz_logmap(lift(x, c), lift(y, c), c=c), "c"),
    "lorentz_transport": ([V, V, (4,)], lambda c, x, y, v: hm.lorentz_transport(lift(x, c), lift(y, c), v, c=c), "c"),
    "lorentz_transport0": ([V, (4,)], lambda c, y, v: hm.lorentz_transport0(lift(y, c), v, c=c), "c"),
    "lorentz_transport0back": ([V, (4,)], lambda c, x, v: hm.lorentz_transport0back(lift(x, c), v, c=c), "c"),
    "lorentz_inner": ([V, (4,), (4,)], lambda c, x, u, v: hm.lorentz_inner(lift(x, c), u, v, c=c), "c"),
    "lorentz_norm": ([V, (4,)], lambda c, x, u: hm.lorentz_norm(lift(x, c), u, c=c), "c"),
    "lorentz_tangent": ([V, (4,)], lambda c, x, v: hm.lorentz_tangent(lift(x, c), v, c=c), "c"),
    "lorentz_egrad2rgrad": ([V, (4,)], lambda c, x, u: hm.lorentz_egrad2rgrad(lift(x, c), u, c=c), "c"),
    "lorentz_project": ([(4,)], lambda c, x: hm.lorentz_project(x, c=c), "c"),
    "stereo_to_sphere": ([V], lambda k, x: hm.stereo_to_sphere(x, k=k), "s"),
    "sphere_to_stereo": ([V], lambda k, x: hm.sphere_to_stereo(x, k=k), "s"),
    "sphere_expmap0": ([V], lambda k, v: hm.sphere_expmap0(v, k=k), "s"),
    "sphere_logmap0": ([V], lambda k, x: hm.sphere_logmap0(x, k=k), "s"),
    "sphere_dist": ([V, V], lambda k, x, y: hm.sphere_dist(x, y, k=k), "s"),
    "cone_aperture": ([V], lambda c, x: hm.cone_aperture(x, c=c), "c"),
    "cone_angle": ([V, V], lambda c, x, y: hm.cone_angle(x, y, c=c), "c"),
    "cone_energy": ([V, V], lambda c, x, y: hm.cone_energy(x, y, c=c), "c"),
    "lorentz_cone_aperture": ([V], lambda c, x: hm.lorentz_cone_aperture(x, c=c), "c"),
    "lorentz_cone_angle": ([V, V], lambda c, x, y: hm.lorentz_cone_angle(x, y, c=c), "c"),
    "lorentz_cone_energy": ([V, V], lambda c, x, y: hm.lorentz_cone_energy(x, y, c=c), "c"),
}
SCALARS = ("tan_ratio", "artan_ratio", "sin_ratio", "arsin_ratio", "cos_ratio")
HELPERS = {"Curvature", "boundary_margin", "careful_flatness", "floating", "of_vectors", "safe_sqrt"}
HELPERS |= {"operation", "space_part", "time_part"}
CURVATURES = {"k": (-0.7, 0.0, 0.6), "c": (0.7,), "s": (0.6,)}
EVERY = pytest.mark.parametrize("name", CASES)


def arguments(name, dtype=torch.float64, device="cpu"):
    shapes, call, kind = CASES[name]
    generator = torch.Generator().manual_seed(7)
    tensors = [
        torch.randn(shape, generator=generator, dtype=torch.float64).clamp(-1.5, 1.5).mul(0.4).to(dtype).to(device)
        for shape in shapes
    ]
    return call, tensors, CURVATURES[kind]


def test_no_public_function_is_missing_here():
    functions = {n for n in hm.__all__ if callable(getattr(hm, n))} - HELPERS
    assert functions == {*CASES, *SCALARS}


@EVERY
def test_first_and_second_derivatives_are_right_in_points_and_curvature(name):
    call, tensors, curvatures = arguments(name)
    for number in curvatures:
        inputs = [torch.tensor(number, dtype=torch.float64), *tensors]
        for tensor in inputs:
            tensor.requires_grad_(True)
        if name == "antipode" and number == 0.0:
            inputs[0] = torch.tensor(-0.1, dtype=torch.float64, requires_grad=True)  # it jumps at k = 0, by nature
        assert gradcheck(call, inputs)
        assert gradgradcheck(call, inputs, fast_mode=True)


@pytest.mark.parametrize("name", SCALARS)
def test_the_analytic_ratios_have_right_derivatives_on_both_sides_of_the_series(name):
    function = getattr(hm, name)
    z = torch.tensor([-0.6, -0.0201, -0.0199, -1e-3, 0.0, 1e-3, 0.0199, 0.0201, 0.6], dtype=torch.float64)
    z.requires_grad_(True)
    assert function(torch.zeros(1)).item() == 1.0
    assert gradcheck(function, z)
    assert gradgradcheck(function, z)


@EVERY
def test_it_compiles_to_one_graph(name):
    call, tensors, curvatures = arguments(name)
    k = torch.tensor(curvatures[0], dtype=torch.float64)
    torch._dynamo.reset()
    compiled = torch.compile(call, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(k, *tensors), call(k, *tensors))


@pytest.mark.parametrize("name", ["dist", "logmap0"])
def test_it_compiles_to_one_graph_with_its_backward(name):
    call, tensors, _ = arguments(name)
    torch._dynamo.reset()
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    k = torch.tensor(-0.7, dtype=torch.float64, requires_grad=True)
    (ours,) = torch.autograd.grad(compiled(k, *tensors).sum(), k)
    (plain,) = torch.autograd.grad(call(k, *tensors).sum(), k)
    torch.testing.assert_close(ours, plain)


@EVERY
def test_functional_transforms_work_over_the_curvature(name):
    call, tensors, curvatures = arguments(name)
    ks = torch.tensor([*curvatures, 0.5 * curvatures[0]], dtype=torch.float64)
    batched = torch.func.vmap(call, in_dims=(0, *[None] * len(tensors)))(ks, *tensors)
    one_by_one = torch.stack([call(k, *tensors) for k in ks])
    torch.testing.assert_close(batched, one_by_one)
    jacobian = torch.func.jacrev(call)(ks[0], *tensors)
    slope = torch.func.grad(lambda k: call(k, *tensors).sum())(ks[0])
    torch.testing.assert_close(jacobian.sum(), slope)
    per_curvature = torch.func.vmap(torch.func.grad(lambda k: call(k, *tensors).sum()))(ks)
    torch.testing.assert_close(per_curvature[0], slope)


@EVERY
def test_it_runs_on_fake_cuda_tensors_and_stays_on_the_device(name):
    call, _, curvatures = arguments(name)
    with FakeTensorMode(), torch.no_grad():
        tensors = [torch.empty(shape, device="cuda") for shape in CASES[name][0]]
        for k in (curvatures[0], torch.empty((), device="cuda")):
            assert call(k, *tensors).device.type == "cuda"


@EVERY
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_right_to_its_own_precision(name, dtype):
    call, tensors, curvatures = arguments(name, dtype)
    for k in curvatures:
        low = call(k, *tensors)
        high = call(k, *[tensor.double() for tensor in tensors])
        assert low.dtype == dtype
        torch.testing.assert_close(low.double(), high, rtol=4 * torch.finfo(dtype).eps, atol=2 * torch.finfo(dtype).eps)


@EVERY
def test_a_curvature_computes_in_the_dtype_of_the_points(name):
    call, tensors, curvatures = arguments(name, torch.float64)
    narrow = torch.tensor(curvatures[0], dtype=torch.float32)
    result = call(narrow, *tensors)
    assert result.dtype == torch.float64
    torch.testing.assert_close(result, call(narrow.double(), *tensors), rtol=0, atol=0)


@EVERY
def test_integers_are_refused_by_name(name):
    call, tensors, curvatures = arguments(name)
    with pytest.raises(TypeError, match=r"is a torch\.int64 tensor; points and vectors are floating-point"):
        call(curvatures[0], torch.zeros_like(tensors[0], dtype=torch.int64), *tensors[1:])


@EVERY
@pytest.mark.parametrize(
    ("k", "error"),
    [(float("nan"), ValueError), (float("inf"), ValueError), ("1", TypeError), (None, TypeError)],
)
def test_an_impossible_curvature_is_refused(name, k, error):
    call, tensors, _ = arguments(name)
    with pytest.raises(error, match=r"must be a (finite number|number or a tensor)"):
        call(k, *tensors)


@EVERY
def test_a_tensor_on_another_device_is_refused(name):
    call, tensors, curvatures = arguments(name)
    with pytest.raises(ValueError, match="move the manifold there"):
        call(torch.tensor(curvatures[0], device="meta"), *tensors)
    if len(tensors) > 1 and tensors[1].dim() == 1:
        with pytest.raises(ValueError, match="move them to one device"):
            call(curvatures[0], tensors[0], tensors[1].to("meta"), *tensors[2:])


@pytest.mark.parametrize(
    "name", [n for n, (shapes, _, _) in CASES.items() if shapes[:2] == [V, V] and "point" not in n]
)
def test_vectors_of_different_sizes_are_refused_and_not_broadcast(name):
    call, tensors, curvatures = arguments(name)
    with pytest.raises(ValueError, match="vectors must have one size"):
        call(curvatures[0], tensors[0], tensors[1][:1], *tensors[2:])
