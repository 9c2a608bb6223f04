"""An operation gives the same as torch, whatever its arguments look like, and never reads what is not theirs."""

import os
import subprocess
import sys

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from hgeo import kernels
from hgeo.kernels import Number, Operation, Row, dot, plain_torch, safe_sqrt, sealed, sqrt, tanh, where


def _formula(x: Row, y: Row, t: Number, k: Number) -> Row:
    s = x + t * y
    moved = sealed(s / (1 + tanh(dot(s, s))))
    return moved - k * where(dot(x, y) > 0, dot(moved, x - y), 2.0) * y


FORMULAS = {
    "row": _formula,
    "number": lambda x, y, t, k: safe_sqrt(dot(x - y, x - y)) * t + k * sqrt(1 + dot(x, y) ** 2),
}
FORMULAS["number"].__annotations__ = {"x": "Row", "y": "Row", "t": "Number", "k": "Number", "return": "Number"}
BOTH = pytest.mark.parametrize("name", FORMULAS)


def rows(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def agree(operation: Operation, *arguments: object, tolerance: float = 1e-12) -> None:
    """The loop, and its way back, against torch's form."""
    results = []
    for form in (operation, operation.formula):
        copies = [a.detach().requires_grad_() if isinstance(a, torch.Tensor) else a for a in arguments]
        out = form(*copies)
        tensors = [c for c in copies if isinstance(c, torch.Tensor)]
        grads = torch.autograd.grad(out, tensors, torch.linspace(-1, 1, out.numel()).to(out).view_as(out))
        results.append((out, *grads))
    torch.testing.assert_close(*results, rtol=tolerance, atol=tolerance)


def looped(operation: Operation, *arguments: object) -> bool:
    """Whether the loop took them: its node is in the graph."""
    out = operation(*[a.detach().requires_grad_() if isinstance(a, torch.Tensor) else a for a in arguments])
    return type(out.grad_fn).__name__ == "_FusedBackward"


@BOTH
@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 16, 33])
@pytest.mark.parametrize("count", [1, 7, 8, 19])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-4)])
def test_the_loop_agrees_with_torch_for_every_size(name, size, count, dtype, tolerance) -> None:
    x, y = rows(count, size, dtype=dtype), rows(count, size, seed=1, dtype=dtype)
    t, k = rows(count, 1, seed=2, dtype=dtype), torch.tensor(-0.5, dtype=dtype)
    operation = Operation(FORMULAS[name])
    assert looped(operation, x, y, t, k)
    agree(operation, x, y, t, k, tolerance=tolerance)


@BOTH
@pytest.mark.parametrize("k", [-0.5, 0.0, 0.7, 2])
def test_a_number_may_be_a_float(name, k) -> None:
    agree(Operation(FORMULAS[name]), rows(5, 3), rows(5, 3, seed=1), 0.3, k)


SHAPES = {
    "one row against many": ((1, 6), (9, 6), (), ()),
    "a single vector": ((6,), (9, 6), (9, 1), ()),
    "all pairs": ((4, 1, 6), (1, 5, 6), (4, 1, 1), (5, 1)),
    "pairs of pairs": ((3, 1, 2, 6), (1, 4, 1, 6), (1,), (3, 1, 1, 1)),
    "no rows": ((0, 6), (0, 6), (), ()),
    "no rows against one": ((0, 6), (6,), (0, 1), ()),
    "rows of no numbers": ((4, 0), (4, 0), (), ()),
    "a vector alone": ((6,), (6,), (), ()),
    "a curvature a row": ((9, 6), (9, 6), (1, 1), (9, 1)),
}


@BOTH
@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_arguments_broadcast_as_torch_does(name, shapes) -> None:
    values = [rows(*shape, seed=n) for n, shape in enumerate(shapes)]
    assert looped(Operation(FORMULAS[name]), *values)
    agree(Operation(FORMULAS[name]), *values)


@BOTH
def test_views_of_every_kind_are_read_where_they_lie(name) -> None:
    operation = Operation(FORMULAS[name])
    big = rows(40, 30)
    t, k = rows(9, 1, seed=4), torch.tensor(-0.3, dtype=torch.float64)
    views = [
        big[3:21:2, 5:11],
        big.t()[4:13, 7:13],
        big[5:14, 2:26:4],
        big[:1, :6].expand(9, 6),
        big.narrow(1, 1, 6)[20:29],
        big[:9, :6].flip(0),
        big[:9, :1].expand(9, 6),
    ]
    for x in views:
        for y in views:
            agree(operation, x, y, t, k)
            agree(operation, x, y, t.t().contiguous().t(), k.expand(9, 1))


@BOTH
def test_a_gradient_may_be_a_view_as_well(name) -> None:
    operation = Operation(FORMULAS[name])
    x, y = rows(9, 6).requires_grad_(), rows(9, 6, seed=1).requires_grad_()
    for reduce in (lambda out: out.sum(), lambda out: out.t().contiguous().sum(), lambda out: out[::2, :1].sum()):
        ours = torch.autograd.grad(reduce(operation(x, y, 0.5, -1.0)), (x, y))
        plain = torch.autograd.grad(reduce(operation.formula(x, y, 0.5, -1.0)), (x, y))
        torch.testing.assert_close(ours, plain, rtol=1e-12, atol=1e-12)


def test_inputs_that_a_kernel_cannot_read_are_computed_by_torch() -> None:
    operation = Operation(_formula)
    x, y = rows(5, 3), rows(5, 3, seed=1)
    assert not looped(operation, x, y.float(), 0.5, -1.0)  # two dtypes
    assert not looped(operation, x, y, 0.5, rows(3))  # a curvature a coordinate
    with pytest.raises(RuntimeError, match="must match the size"):
        operation(x, rows(5, 4), 0.5, -1.0)
    with pytest.raises(RuntimeError, match="broadcast"):
        operation(x, rows(4, 3), 0.5, -1.0)
    assert operation(x.to("meta"), y.to("meta"), 0.5, -1.0).device.type == "meta"
    with FakeTensorMode(), torch.no_grad():
        fake = torch.empty(5, 3, device="cuda")
        assert operation(fake, fake, 0.5, -1.0).device.type == "cuda"


def test_a_torch_dispatch_mode_sees_the_operators() -> None:
    seen = []

    class Watching(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            seen.append(function)
            return super().__torch_function__(function, types, args, kwargs or {})

    x = rows(5, 3).as_subclass(Watching)
    assert isinstance(Operation(_formula)(x, x, 0.5, -1.0), Watching)
    assert len(seen) > 5


@BOTH
def test_second_derivatives_and_torchs_transforms_work(name) -> None:
    operation = Operation(FORMULAS[name])
    x, y = rows(3, 4).requires_grad_(), rows(3, 4, seed=1).requires_grad_()
    t, k = rows(3, 1, seed=2).requires_grad_(), torch.tensor(-0.5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(operation, (x, y, t, k))
    assert torch.autograd.gradgradcheck(operation, (x, y, t, k))
    arguments = [v.detach() for v in (x, y, t, k)]
    plain = operation.formula(*arguments)
    torch.testing.assert_close(torch.func.vmap(operation, in_dims=(0, 0, 0, None))(*arguments), plain)
    value, slope = torch.func.jvp(lambda k: operation(*arguments[:3], k), (arguments[3],), (torch.ones_like(k),))
    torch.testing.assert_close(value, plain)
    torch.testing.assert_close(slope, torch.func.jacrev(lambda k: operation(*arguments[:3], k))(arguments[3]))
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(operation, fullgraph=True, backend="eager")(*arguments), plain)


@pytest.mark.parametrize("shapes", [((3, 5, 6), (6,)), ((5, 6), (5, 6)), ((2, 3, 5, 6), (5, 6)), ((1, 6), (7, 6))])
@BOTH
def test_a_total_is_the_sum_over_the_last_axis_of_the_batch(name, shapes) -> None:
    operation = Operation(FORMULAS[name])
    x, y = (rows(*shape, seed=n).requires_grad_() for n, shape in enumerate(shapes))
    batch = torch.broadcast_shapes(x.shape, y.shape)[:-1]
    total = operation.total(x, y, 0.5, -1.0)
    plain = operation.formula(x, y, 0.5, -1.0).sum(-2, keepdim=True)
    assert total.shape == (*batch[:-1], 1, plain.shape[-1])
    torch.testing.assert_close(total, plain)
    weights = torch.linspace(1, 2, total.numel(), dtype=total.dtype).view_as(total)
    torch.testing.assert_close(torch.autograd.grad(total, (x, y), weights), torch.autograd.grad(plain, (x, y), weights))
    with plain_torch():
        torch.testing.assert_close(operation.total(x, y, 0.5, -1.0), plain)


def test_only_what_is_wanted_is_differentiated() -> None:
    x, y = rows(5, 3).requires_grad_(), rows(5, 3, seed=1)
    out = Operation(_formula)(x, y, 0.5, -1.0)
    (ours,) = torch.autograd.grad(out.sum(), x)
    (plain,) = torch.autograd.grad(_formula(x, y, 0.5, -1.0).sum(), x)
    torch.testing.assert_close(ours, plain)


def test_a_formula_that_branches_on_a_number_gets_a_clear_error() -> None:
    def branching(x: Row, k: Number) -> Row:
        return x if dot(x, x) > k else -x

    with pytest.warns(RuntimeWarning, match=r"branching: no compiled kernel \(TypeError: .*choose with where"):
        Operation(branching)(rows(1, 3), 0.5)


_ELSEWHERE = """
import sys
sys.modules["llvmlite"] = None  # as if it were not installed
import warnings, torch, hgeo.math as hm
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    x = torch.tensor([[0.1, 0.2], [0.3, 0.4]], requires_grad=True)
    hm.dist(x, x.flip(0), k=-1.0).sum().backward()
    hm.mobius_add(x, x, k=-1.0)
print([str(t.message) for t in told if "kernel" in str(t.message)], x.grad.norm().item() > 0)
"""


def test_without_a_compiler_torch_computes_everything_without_a_warning() -> None:
    done = subprocess.run([sys.executable, "-c", _ELSEWHERE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] True"


def test_importing_compiles_nothing_and_kernels_are_read_from_the_cache(tmp_path) -> None:
    script = (
        "import sys, torch, hgeo.math as hm\n"
        "assert 'llvmlite' not in sys.modules and 'numba' not in sys.modules\n"
        "import llvmlite.binding as llvm\n"
        "made = []\n"
        "parse = llvm.parse_assembly\n"
        "llvm.parse_assembly = lambda text, *a: (made.append(text), parse(text, *a))[1]\n"
        "hm.dist0(torch.ones(3, 2) / 2, k=-1.0)\n"
        "print(sum(bool(text) for text in made), 'numba' in sys.modules)\n"
    )
    environment = {**os.environ, "HGEO_CACHE": str(tmp_path)}
    told = [
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
        for _ in range(2)
    ]
    assert [one.stdout.strip() for one in told] == ["1 False", "0 False"]


def test_the_room_says_what_it_offers() -> None:
    assert {"Operation", "Row", "Number", "dot", "where"} <= set(kernels.__all__)
