"""check_manifold, its report, the pytest base class and the command ``hgeo check``."""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import geoopt
import pytest
import torch

import hgeo
from hgeo.cli import main
from hgeo.testing import Functions, check_manifold, laws, load
from hgeo.testing._examples import Examples
from hgeo.testing._space import Space

pytest_plugins = ["pytester"]


class Stretched(geoopt.Euclidean):
    """A plane whose distance forgets half of one coordinate: a metric, but not that of its exponential map."""

    def __init__(self) -> None:
        super().__init__(ndim=1)

    def dist(self, x: torch.Tensor, y: torch.Tensor, *, keepdim: bool = False) -> torch.Tensor:
        weight = torch.ones(x.shape[-1], dtype=x.dtype)
        weight[0] = 0.5
        return ((x - y) * weight).norm(dim=-1, keepdim=keepdim)


def test_a_wrong_manifold_is_found_out_and_the_counterexample_is_small() -> None:
    report = check_manifold(Stretched(), dim=2, laws=["metric", "maps"])
    assert not report.passed
    assert report["triangle_inequality"].verdict == "pass"
    failure = report["exponential_travels_the_length"]
    assert failure.verdict == "FAIL"
    assert len(failure.counterexample) < 220, failure.counterexample


class Inheriting(geoopt.Euclidean):
    """Flat space with the norm of geoopt's base class, √⟨u, u⟩, which has no derivative at 0."""

    norm = geoopt.Manifold.norm


def test_a_fault_of_geoopts_base_class_is_reported_as_inherited() -> None:
    report = check_manifold(Inheriting(ndim=1), laws="norm_is_differentiable_at_zero")
    (result,) = report.results
    assert result.verdict == "inherited"
    assert "norm breaks this on flat space, too" in result.note
    assert report.failures == []
    assert "inherited" in report.summary()


def test_the_same_fault_in_ones_own_code_is_ones_own() -> None:
    class Own(geoopt.Euclidean):
        def norm(self, x, u, *, keepdim=False):
            return self.inner(x, u, keepdim=keepdim) ** 0.5

    (result,) = check_manifold(Own(ndim=1), laws="norm_is_differentiable_at_zero").results
    assert result.verdict == "FAIL"


def test_an_inherited_operation_that_is_right_does_not_excuse_what_it_calls() -> None:
    class Sick(geoopt.Euclidean):
        norm = geoopt.Manifold.norm

        def inner(self, x, u, v=None, *, keepdim=False):
            return -super().inner(x, u, v, keepdim=keepdim)

    report = check_manifold(Sick(ndim=1), laws="metric")
    assert "inner_product_is_positive" in {result.law.name for result in report.failures}


def test_what_a_manifold_lacks_is_not_applicable_and_never_passed() -> None:
    report = check_manifold(geoopt.Euclidean(ndim=1), laws=["gyro", "metric"])
    assert report["gyroassociativity"].verdict == "not applicable"
    assert "mobius_add" in report["gyroassociativity"].note
    assert report.passed
    only = check_manifold(geoopt.Euclidean(ndim=1), laws="gyro")
    assert not only.passed, "nothing applicable is not a pass"


def test_what_a_manifold_raises_is_a_verdict() -> None:
    class Broken(geoopt.Euclidean):
        def dist(self, x: torch.Tensor, y: torch.Tensor, *, keepdim: bool = False) -> torch.Tensor:
            raise RuntimeError("no distance today")

    report = check_manifold(Broken(ndim=1), laws="distance_is_symmetric")
    assert report["distance_is_symmetric"].note == "raised RuntimeError: no distance today"


@pytest.mark.parametrize(
    "manifold", [geoopt.Stiefel(), geoopt.SymmetricPositiveDefinite(), geoopt.BirkhoffPolytope(), geoopt.SphereExact()]
)
def test_any_geoopt_manifold_can_be_checked(manifold: geoopt.Manifold) -> None:
    report = check_manifold(manifold, dim=4, laws=["metric", "projection"], max_examples=10)
    verdicts = {result.verdict for result in report.results}
    assert verdicts <= {"pass", "FAIL", "not applicable", "no example"}
    assert "not applicable" in verdicts


def test_the_manifold_under_test_is_not_changed() -> None:
    ball = hgeo.PoincareBall(0.5, learnable=True)
    before = {name: value.clone() for name, value in ball.state_dict().items()}
    check_manifold(ball, laws=["curvature", "metric"], dtype=torch.float64, max_examples=5)
    assert ball.stored_c.dtype == torch.float32
    assert all(torch.equal(value, before[name]) for name, value in ball.state_dict().items())


def test_equal_seeds_draw_equal_examples() -> None:
    one, two = (check_manifold(hgeo.PoincareBall(), laws="triangle_inequality", seed=3) for _ in range(2))
    other = check_manifold(hgeo.PoincareBall(), laws="oracle_dist", seed=4)
    assert one["triangle_inequality"].error == two["triangle_inequality"].error
    assert (
        other["oracle_dist"].error
        != check_manifold(hgeo.PoincareBall(), laws="oracle_dist", seed=5)["oracle_dist"].error
    )


def test_a_law_can_be_asked_about_one_example() -> None:
    law = laws.triangle_inequality
    assert law.error(hgeo.PoincareBall(), x=[0.1, 0.0], y=[0.0, 0.2], z=[0.3, 0.3]) <= law.tolerance(torch.float32)
    with pytest.raises(TypeError, match="also needs z"):
        law.error(hgeo.PoincareBall(), x=[0.1], y=[0.2])
    with pytest.raises(TypeError, match="not applicable"):
        laws.gyroassociativity.error(geoopt.Euclidean(ndim=1), x=[0.1], y=[0.2], z=[0.3])


def test_every_law_says_what_it_means() -> None:
    assert len(laws.REGISTER) > 150
    for entry in laws.REGISTER.values():
        assert entry.statement
        assert entry.needs
        assert entry.group in laws.GROUPS
        for dtype in (torch.float64, torch.float32):
            assert entry.tolerance(dtype) >= 0


def test_every_operation_is_under_an_algebraic_and_an_oracle_law() -> None:
    algebra = [entry for entry in laws.REGISTER.values() if entry.group in laws.GROUPS[:14]]
    for entry in laws.select("oracle"):
        (operation, *_) = entry.needs
        assert any(operation in other.needs for other in algebra), f"{operation} is only under the oracle"


def test_laws_are_selected_by_name_group_and_pattern() -> None:
    assert [entry.name for entry in laws.select("triangle_inequality")] == ["triangle_inequality"]
    assert all(entry.group == "gyro" for entry in laws.select("gyro"))
    assert len(laws.select("oracle_*")) == len(laws.select("oracle"))
    with pytest.raises(ValueError, match="no law matches 'gyros'"):
        laws.select("gyros")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"dim": 0}, "at least 1"), ({"max_examples": 0}, "at least 1"), ({"dtype": torch.int64}, "floating-point")],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        check_manifold(hgeo.PoincareBall(), **arguments)


def test_targets_are_read() -> None:
    assert isinstance(load("geoopt:PoincareBall")[0], geoopt.PoincareBall)
    assert float(load("geoopt:Lorentz(k=2.0)")[0].k) == 2.0
    manifold, dim, text = load("ball:16,c=0.5")
    assert (type(manifold), dim, text) == (hgeo.PoincareBall, 16, "hgeo.space('ball:16,c=0.5')[0]")
    assert load("klein:4")[0].c.item() == 1.0
    functions, _, text = load("hgeo.math", k=-0.5)
    assert isinstance(functions, Functions)
    assert text == "Functions(hgeo.math, k=-0.5)"
    with pytest.raises(ValueError, match="no module 'nowhere'"):
        load("nowhere:at_all")
    with pytest.raises(ValueError, match="has no 'PoincareBal'"):
        load("geoopt:PoincareBal")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("mine:broken", r"'mine:broken': broken raised RuntimeError: no weights"),
        ("mine:number", r"expected a geoopt manifold, or a pair \(manifold, dimension\), got 3"),
        ("mine:nowhere", r"module mine has no 'nowhere'; it has .*broken"),
        ("mine", r"'mine' has no function dist\(x, y, k=...\); for a manifold give mine:factory"),
        ("needy:factory", "module needy needs 'not_there', which is not installed"),
        ("faulty:factory", "importing faulty raised ZeroDivisionError"),
        ("geoopt:Lorentz(k=", "expected a call with keywords, such as Lorentz"),
        ("geoopt:Lorentz(2)", "expected a call with keywords"),
        ("geoopt:Lorentz(q=2)", "raised TypeError: .*unexpected keyword argument 'q'"),
    ],
)
def test_a_bad_target_is_told_from_a_broken_law(
    target: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text("import geoopt\nnumber = 3\ndef broken(): raise RuntimeError('no weights')\n")
    (tmp_path / "needy.py").write_text("import not_there\n")
    (tmp_path / "faulty.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    assert main(["check", target]) == 2
    assert re.search(message, capsys.readouterr().err)


class Bare(geoopt.manifolds.base.Manifold):
    """As little as geoopt asks for: no distance, no logarithm, no way to draw a point."""

    name, ndim = "Bare", 1

    def projx(self, x: torch.Tensor) -> torch.Tensor:
        return x

    def proju(self, x: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        return u

    egrad2rgrad = proju

    def inner(self, x: torch.Tensor, u: torch.Tensor, v: Any = None, *, keepdim: bool = False) -> torch.Tensor:
        return (u * (u if v is None else v)).sum(-1, keepdim=keepdim)

    def retr(self, x: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        return x + u

    expmap = retr

    def transp(self, x: torch.Tensor, y: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return v

    def _check_point_on_manifold(self, x: torch.Tensor, *, atol: float, rtol: float) -> tuple[bool, None]:
        return True, None

    def _check_vector_on_tangent(self, x: torch.Tensor, u: torch.Tensor, *, atol: float, rtol: float) -> Any:
        return True, None


def test_a_manifold_that_can_do_little_is_asked_what_it_can() -> None:
    report = check_manifold(Bare(), laws=["metric", "maps", "transport", "projection"], max_examples=20)
    assert report.passed, str(report)
    assert report["triangle_inequality"].note == "it has no dist"
    assert report["riemannian_gradient_is_the_dual"].verdict == "pass"
    assert report["inner_product_is_symmetric"].verdict == "pass"


def test_extended_precision_settles_only_what_sixty_digits_would_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = ["oracle", "curvature_derivative_of_*", "gradient_of_mobius_*", "derivative_limit_of_mobius_*"]
    for ball in (hgeo.PoincareBall(), geoopt.PoincareBall()):
        space = Space(ball, 3, torch.float32)
        examples = Examples(space, 25)
        for entry in [entry for entry in laws.select(chosen) if not entry.missing(space)]:
            if type(ball) is geoopt.PoincareBall and "inner" in entry.needs:
                with pytest.raises(laws.WrongShape, match=r"inner of 25 examples has the shape \(25, 25\)"):
                    entry.errors(space, examples)  # geoopt's inner product of a batch is a matrix
                continue
            fast = entry.errors(space, examples)
            with monkeypatch.context() as patch:
                patch.setattr("hgeo.testing._batch.AVAILABLE", False)
                slow = entry.errors(space, examples)
            # sixty digits may pass over an example that extended precision has settled, never judge it otherwise
            both, allowed = (fast != laws.SKIPPED) & (slow != laws.SKIPPED), entry.tolerance(torch.float32)
            assert torch.equal((fast <= allowed)[both], (slow <= allowed)[both]), entry.name


def test_where_zero_is_right_anything_else_is_infinitely_wrong() -> None:
    """geoopt gives 1e-8 for x ⊖ x. The kit divided by the size of the right answer, and called that geoopt's error."""
    report = check_manifold(geoopt.PoincareBall(), laws="oracle_mobius_sub", dtype=torch.float32, max_examples=25)
    (result,) = report.results
    assert result.verdict == "FAIL"
    assert result.error == math.inf
    assert result.note == ""
    assert "laws.oracle_mobius_sub.error(geoopt.PoincareBall(c=1)" in result.counterexample
    x = torch.tensor([0.3, 0.4])
    assert laws.REGISTER["oracle_mobius_sub"].error(hgeo.PoincareBall(), x=x, y=x) == 0.0


def test_a_result_of_the_wrong_shape_is_told_with_its_shape() -> None:
    report = check_manifold(geoopt.PoincareBall(), laws="oracle_inner", dtype=torch.float64, max_examples=4)
    assert report["oracle_inner"].note == "inner of 4 examples has the shape (4, 4) (try it on two)"


def test_the_command_prints_a_table_and_its_exit_code_is_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "ball:3", "--laws", "metric", "--examples", "10", "--dtype", "float32"]) == 0
    assert "triangle_inequality" in capsys.readouterr().out
    assert main(["check", "geoopt:PoincareBall", "--laws", "logarithm_at_origin_inverts", "--dtype", "float32"]) == 1
    printed = capsys.readouterr().out
    assert "FAIL" in printed
    assert "laws.logarithm_at_origin_inverts.error(geoopt.PoincareBall()" in printed


def test_the_command_speaks_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "geoopt:Lorentz", "--laws", "metric", "--examples", "5", "--json", "--dtype", "float64"]) in (
        0,
        1,
    )
    (report,) = json.loads(capsys.readouterr().out)
    assert {entry["verdict"] for entry in report["laws"]} <= {"pass", "FAIL", "not applicable", "no example"}


def test_the_command_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["check", "--help"])
    assert "mypkg.mod:factory" in capsys.readouterr().out
    assert main(["check"]) == 2
    assert main(["check", "ball:3", "--laws", "nonsense"]) == 2
    assert main(["check", "ball:3", "--dim", "4"]) == 2
    assert main(["check", "--list"]) == 0
    assert "d(x, z) ≤ d(x, y) + d(y, z)" in capsys.readouterr().out


def test_a_users_manifold_inherits_the_laws(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import geoopt, torch
        from hgeo.testing import ManifoldLaws

        class TestMine(ManifoldLaws):
            manifold = geoopt.Euclidean(ndim=1)
            laws = ["metric", "gyro"]
            max_examples = 10

        class Twice(geoopt.Euclidean):
            def expmap(self, x, u):
                return x + 2 * u

        class TestWrong(ManifoldLaws):
            manifold = Twice(ndim=1)
            laws = "exponential_travels_the_length"
            dtypes = (torch.float64,)
        """
    )
    result = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider")
    outcomes = result.parseoutcomes()
    assert outcomes["failed"] == 1
    assert outcomes["passed"] > 10
    assert outcomes["skipped"] > 10
    result.stdout.fnmatch_lines(["*laws.exponential_travels_the_length.error(*"])


def test_a_test_class_without_a_manifold_says_so(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from hgeo.testing import ManifoldLaws

        class TestNothing(ManifoldLaws):
            laws = "triangle_inequality"
        """
    )
    pytester.runpytest_subprocess("-q").stdout.fnmatch_lines(["*set the class attribute manifold = YourManifold()*"])
