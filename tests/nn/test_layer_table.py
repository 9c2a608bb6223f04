"""What every layer promises on every space it serves."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from layer_table import (
    DIM,
    LAYERS,
    MOVES_WITH,
    PAGE,
    PAIRS_THAT_DO_NOT,
    PAIRS_THAT_WORK,
    ROWS,
    SPACES,
    build,
    example,
    page_with_table,
)
from torch import Tensor

import hgeo
import hgeo.nn as hnn
from hgeo._geoopt import geoopt
from hgeo.testing import check_layer

every_layer_on_every_space = pytest.mark.parametrize(("name", "space"), PAIRS_THAT_WORK)


def every_layer_on(*spaces: str) -> pytest.MarkDecorator:
    """For what does not depend on the formulas of a space, but on the kind of it: one of each kind."""
    return pytest.mark.parametrize(("name", "space"), [pair for pair in PAIRS_THAT_WORK if pair[1] in spaces])


def hard_places(dtype: torch.dtype) -> dict[str, Tensor]:
    """Tangent coordinates of rows at the places where formulas break."""
    direction = torch.nn.functional.normalize(torch.arange(1.0, DIM + 1, dtype=dtype), dim=0)
    some = torch.randn(ROWS, DIM, dtype=dtype, generator=torch.Generator().manual_seed(3))
    return {
        "origin": torch.zeros(ROWS, DIM, dtype=dtype),
        "almost the origin": some * 1e-20,
        "coincident": direction.expand(ROWS, DIM).clone(),
        "boundary": 30 * some,
        "coincident at the boundary": 30 * direction.expand(ROWS, DIM).clone(),
        "origin and boundary": torch.cat([torch.zeros(ROWS // 2, DIM, dtype=dtype), 30 * some[: ROWS // 2]]),
        "opposite": 2 * torch.stack([direction, -direction] * (ROWS // 2)),
    }


def place(space: str, v: Tensor) -> Tensor:
    # A sphere has no boundary but an opposite pole: what is "far" elsewhere stops short of it here. How far out a
    # manifold of the user's own can compute is its own affair.
    if space in ("sphere", "sproj", "stereo k>0", "product", "own"):
        return v.clamp(-1, 1)
    return v


@every_layer_on_every_space
def test_output_lies_on_the_manifold_and_gradients_are_finite_at_hard_places(name: str, space: str) -> None:
    check_hard_places(name, space, torch.float32)


# Frechet means are iterated to the end here: three steps, as elsewhere in the table, have no right gradient yet. ELU
# acts on coordinates, which on the hyperboloid are twice as long.
IN_FULL: dict[str, Callable[[object], torch.nn.Module]] = {
    "BatchNorm frechet": lambda m: hnn.BatchNorm(DIM, m, mean="frechet"),
    "Midpoint frechet": lambda m: hnn.Midpoint(m, how="frechet"),
    "Pool frechet": lambda m: hnn.Pool(m, how="frechet"),
    "Activation": lambda m: hnn.Activation(torch.nn.functional.elu, m, scale=hgeo.frame_scale(m)),
    "HATConv": lambda m: hnn.HATConv(
        DIM, DIM, m, in_manifold=m, activation=torch.relu, activation_space="tangent", backend="reference"
    ),
}


def obeys(name: str, space: str) -> None:
    row = LAYERS[name]
    takes = "points" if row.takes == "ball points" else row.takes
    report = check_layer(
        IN_FULL.get(name, row.make),
        SPACES[space](),
        dim=DIM,
        call=row.call,
        takes=takes,
        gives=row.gives,
        equivariant=MOVES_WITH.get(name, MOVES_WITH.get(name.split()[0], ())),
        frame_vectors=("normal",) if name == "MLR" else (),
        name=f"{name} on {space}",
    )
    assert report.passed, str(report)


# The hyperboloid is asked with the ball, whose twin it is; a layer that is not on the ball is asked there.
ON_BALL = [pair for pair in PAIRS_THAT_WORK if pair[1] == ("lorentz" if "ball" in LAYERS[pair[0]].not_on else "ball")]


@pytest.mark.parametrize(("name", "space"), ON_BALL)
def test_a_layer_keeps_the_promises_of_the_law_kit(name: str, space: str) -> None:
    obeys(name, space)


@pytest.mark.slow
@every_layer_on_every_space
def test_a_layer_keeps_the_promises_of_the_law_kit_on_every_space(name: str, space: str) -> None:
    obeys(name, space)


def check_hard_places(name: str, space: str, dtype: torch.dtype) -> None:
    layer, manifold = build(name, space, dtype)
    for where, v in hard_places(dtype).items():
        x = example(name, manifold, dtype, place(space, v))
        if x.is_floating_point():
            x.requires_grad_()
        y = LAYERS[name].call(layer, x)
        assert y.dtype == dtype
        assert torch.isfinite(y).all(), where
        if LAYERS[name].gives == "points":
            hgeo.validate(manifold, y.detach())
        layer.zero_grad()
        y.square().sum().backward()
        if x.is_floating_point():
            assert torch.isfinite(x.grad).all(), where
        for parameter_name, parameter in layer.named_parameters():
            assert parameter.grad is None or torch.isfinite(parameter.grad).all(), (where, parameter_name)


@pytest.mark.parametrize(("name", "space"), PAIRS_THAT_DO_NOT)
def test_a_layer_refuses_a_space_it_cannot_serve(name: str, space: str) -> None:
    with pytest.raises((ValueError, TypeError), match=name.split()[0] + r"|has no (gyromidpoints|hyperplanes)"):
        LAYERS[name].make(SPACES[space]())


@every_layer_on_every_space
def test_the_curvature_of_every_manifold_is_among_the_parameters(name: str, space: str) -> None:
    layer, manifold = build(name, space)
    mine = {id(parameter) for parameter in layer.parameters()}
    assert {id(parameter) for parameter in manifold.parameters()} <= mine


@every_layer_on("ball", "lorentz", "product", "own")
def test_a_loaded_state_dict_gives_the_same_function(name: str, space: str) -> None:
    layer, manifold = build(name, space, seed=0)
    other, _ = build(name, space, seed=1)
    x = example(name, manifold)
    other.load_state_dict(layer.state_dict())
    torch.manual_seed(5)
    expected = LAYERS[name].call(layer, x)
    torch.manual_seed(5)
    assert torch.equal(LAYERS[name].call(other, x), expected)


@every_layer_on("ball", "lorentz", "product", "own")
def test_a_copy_is_equal_and_independent(name: str, space: str) -> None:
    layer, manifold = build(name, space)
    twin = copy.deepcopy(layer)
    x = example(name, manifold)
    torch.manual_seed(5)
    expected = LAYERS[name].call(layer, x)
    torch.manual_seed(5)
    assert torch.equal(LAYERS[name].call(twin, x), expected)
    for parameter, mine in zip(twin.parameters(), layer.parameters(), strict=True):
        assert parameter.data_ptr() != mine.data_ptr()
        if hasattr(parameter, "manifold"):
            # the copied point lies on the copied manifold, not on the original's
            assert type(parameter.manifold) is type(mine.manifold)
            assert any(parameter.manifold is module for module in twin.modules())


@every_layer_on("ball", "lorentz", "product", "own")
def test_autocast_computes_geometry_in_full_precision(name: str, space: str) -> None:
    layer, manifold = build(name, space)
    layer.eval()
    x = example(name, manifold)
    expected = LAYERS[name].call(layer, x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = LAYERS[name].call(layer, x)
    assert y.dtype == torch.float32
    assert torch.allclose(y, expected, atol=0.05, rtol=0.05)
    if LAYERS[name].gives == "points":
        hgeo.validate(manifold, y.detach())


@every_layer_on("ball")
def test_compiles_in_one_graph(name: str, space: str) -> None:
    layer, manifold = build(name, space)
    check_one_graph(name, layer.eval(), example(name, manifold))


def check_one_graph(name: str, layer: torch.nn.Module, x: Tensor) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: LAYERS[name].call(layer, x), fullgraph=True, backend="eager")
    assert torch.allclose(compiled(x), LAYERS[name].call(layer, x), atol=1e-6)


@pytest.mark.parametrize("name", ["Linear", "FromManifold"])
def test_compiles_in_one_graph_on_a_manifold_that_hgeo_has_not_heard_of(name: str) -> None:
    check_one_graph_on(name, "own")


@pytest.mark.slow
@every_layer_on_every_space
def test_compiles_in_one_graph_on_every_space(name: str, space: str) -> None:
    check_one_graph_on(name, space)


def check_one_graph_on(name: str, space: str) -> None:
    # The frame of a manifold hgeo has not heard of is found in the first call of a layer that does not fix its
    # dimension, and that call must not be a traced one.
    layer, manifold = build(name, space)
    LAYERS[name].call(layer, example(name, manifold))
    check_one_graph(name, layer.eval(), example(name, manifold))


@pytest.mark.parametrize("name", ["Linear", "Linear factors", "Midpoint", "MLR"])
def test_compiles_in_one_graph_on_a_product_of_every_kind_of_space(name: str) -> None:
    test_compiles_in_one_graph(name, "product")


@every_layer_on("ball", "lorentz", "product", "own")
def test_bad_input_is_refused_in_words(name: str, space: str) -> None:
    layer, manifold = build(name, space)
    x = example(name, manifold)
    wrong = x.float() if LAYERS[name].takes == "numbers" else x.long()
    with pytest.raises(TypeError, match=r"floating-point|whole numbers"):
        LAYERS[name].call(layer, wrong)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: hgeo.nn.Linear(4, 4, "ball:4"), r"Linear: .*the text 'ball:4'; hgeo\.space\(text\)\.manifold"),
        (lambda: hgeo.nn.MLR(4, 3, hgeo.space("ball:4")), r"MLR: .*a Space, which is a pair: give its \.manifold"),
        (lambda: hgeo.nn.Activation(SPACES["ball"](), torch.relu), "Activation: expected a geoopt manifold, got"),
        (lambda: hgeo.nn.Linear(4, 6, SPACES["product"]()), "Linear: .*has dimension 4, asked for 6"),
    ],
)
def test_a_layer_says_what_it_was_made_of_instead_of_a_manifold(make: Callable[[], object], words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        make()


def test_hyperplanes_of_a_scaled_product_are_those_of_the_product_of_scaled_factors() -> None:
    torch.manual_seed(0)
    ball, sphere = hgeo.PoincareBall(c=0.7), geoopt.Sphere()
    whole = geoopt.Scaled(hgeo.Product((ball, 2), (sphere, 2)), 1.5)
    parts = hgeo.Product((geoopt.Scaled(ball, 1.5), 2), (geoopt.Scaled(sphere, 1.5), 2))
    one, other = hgeo.nn.MLR(4, 3, whole), hgeo.nn.MLR(4, 3, parts)
    with torch.no_grad():
        for name in ("point", "normal"):
            getattr(other, name).copy_(getattr(one, name))
    x = hgeo.exp0(whole, torch.randn(5, 4))
    torch.testing.assert_close(one(x), other(x))


def test_the_docs_show_the_table_that_is_tested() -> None:
    text = PAGE.read_text()
    assert text == page_with_table(text), "run python tests/nn/layer_table.py"


def test_every_layer_of_the_package_is_in_the_table() -> None:
    tested = {name.split()[0] for name in LAYERS}
    assert tested == {name for name in hgeo.nn.__all__ if name[0].isupper()} - {"Attention", "DECODERS"}
