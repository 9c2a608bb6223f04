"""The space string reads as written, and its errors point at the character."""

import geoopt
import pytest
import torch

import hgeo


@pytest.mark.parametrize(
    ("text", "cls", "dim", "k", "learnable"),
    [
        ("ball:16", hgeo.PoincareBall, 16, -1.0, False),
        ("ball:16,c=0.5", hgeo.PoincareBall, 16, -0.5, False),
        ("ball:16,c=learn", hgeo.PoincareBall, 16, -1.0, True),
        ("ball:16,c=0.5,learn", hgeo.PoincareBall, 16, -0.5, True),
        ("ball:16,learn,c=0.5", hgeo.PoincareBall, 16, -0.5, True),
        ("ball: 16, c = 0.25", hgeo.PoincareBall, 16, -0.25, False),
        ("ball:1,c=0", hgeo.PoincareBall, 1, 0.0, False),
        ("stereo:8,k=learn", hgeo.Stereographic, 8, 0.0, True),
        ("stereo:8,k=-1e-3", hgeo.Stereographic, 8, -1e-3, False),
        ("sproj:4", hgeo.SphereProjection, 4, 1.0, False),
        ("lorentz:8,c=4", hgeo.Lorentz, 8, 0.25, False),
    ],
)
def test_a_space_string_gives_the_space_that_it_names(text, cls, dim, k, learnable):
    manifold, found = hgeo.space(text)
    assert type(manifold) is cls
    assert found == dim
    assert manifold.k.item() == pytest.approx(k)
    assert manifold.learnable is learnable


def test_the_word_klein_gives_kleins_ball():
    manifold, dim = hgeo.space("klein:4,c=0.5,learn")
    assert (type(manifold), dim, manifold.c.item(), manifold.learnable) == (hgeo.Klein, 4, 0.5, True)


def test_the_words_sphere_and_euclidean_give_geoopts_spaces():
    assert type(hgeo.space("sphere:4").manifold) is geoopt.Sphere
    assert type(hgeo.space("euclidean:4").manifold) is geoopt.Euclidean


def test_factors_make_a_product_with_the_sum_of_dimensions():
    for text in ("ball:16,c=learn x sphere:4", "ball:16,c=learn × sphere:4", "  ball:16,c=learn   x  sphere:4"):
        manifold, dim = hgeo.space(text)
        assert isinstance(manifold, hgeo.Product)
        assert dim == manifold.dim == 20
        assert hgeo.exp0(manifold, torch.zeros(20)).shape == (21,)


@pytest.mark.parametrize(
    ("text", "at", "problem"),
    [
        ("bal:16", 0, "expected one of ball, euclidean"),
        ("", 0, "got 'nothing'"),
        ("ball", 4, "expected ':' and a dimension after 'ball'"),
        ("ball:", 5, "a whole number of at least 1"),
        ("ball:0", 5, "a whole number of at least 1"),
        ("ball:x", 5, "a whole number of at least 1"),
        ("ball:16 c=1", 8, "expected ',', ' x ' or the end"),
        ("ball:16,k=1", 8, "'ball' knows 'c=NUMBER'"),
        ("ball:16,c=abc", 10, "expected a number or 'learn' for 'c', got 'abc'"),
        ("ball:16,c=-1", 10, "c must be a finite number ≥ 0"),
        ("ball:16,c=1,c=2", 12, "'c' is given twice"),
        ("ball:2,c=learn,c=1", 15, "'c' is given twice; 'c=0.5,learn' trains it from 0.5"),
        ("ball:2,c=1,c=learn", 11, "'c' is given twice"),
        ("ball:2,c=learn,c=learn", 15, "'c' is given twice"),
        ("stereo:2,k=learn,learn", 17, "'learn' is given twice"),
        ("ball:2,learn,learn", 13, "'learn' is given twice"),
        ("ball:2,learn,c=learn", 13, "'learn' is given twice"),
        ("ball:2 x ball:2,c=learn,c=1", 24, "'c' is given twice"),
        ("sphere:4,k=2", 9, "'sphere' has no options: its curvature is fixed"),
        ("ball:2 x spher:2", 9, "got 'spher'"),
        ("ball:2 x ball:2,c=nan", 18, "finite number"),
    ],
)
def test_an_error_points_at_the_character(text, at, problem):
    with pytest.raises(ValueError, match="space string") as caught:
        hgeo.space(text)
    message, shown, caret = str(caught.value).split("\n")
    assert problem in message
    assert shown == "  " + text
    assert caret.index("^") - 2 == at


def test_anything_but_a_string_is_refused():
    with pytest.raises(TypeError, match=r"given by a string such as 'ball:16', got int: 3"):
        hgeo.space(3)


def test_the_caret_points_at_the_number_that_is_wrong():
    with pytest.raises(ValueError, match="got -1") as refused:
        hgeo.space("ball:16,learn,c=-1")
    text, caret = str(refused.value).splitlines()[-2:]
    assert text[caret.index("^") :] == "-1"
