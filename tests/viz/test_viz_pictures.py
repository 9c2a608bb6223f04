"""Pictures show what is there: points where they are, edges as geodesics, classes that can be told apart."""

import json
import re

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import hgeo
from hgeo.data import karate
from hgeo.viz import (
    Listener,
    attention_figure,
    attention_rows,
    attention_table,
    comparison_figure,
    curves_figure,
    disk_coordinates,
    embedding_figure,
    embedding_page,
    save_figure,
)
from hgeo.viz._disk import _geodesics
from hgeo.viz._palette import color_of, marker_of


def test_a_hyperbolic_plane_is_shown_isometrically():
    ball = hgeo.PoincareBall(c=4.0)
    x, y = torch.tensor([[0.3, 0.1]]), torch.tensor([[-0.2, 0.35]])
    shown = disk_coordinates(torch.cat([x, y]).double(), ball)
    unit = hgeo.math.dist(shown[:1], shown[1:], k=-1.0)
    assert unit.item() == pytest.approx(2.0 * hgeo.dist(ball, x.double(), y.double()).item())  # √c times the distance


@pytest.mark.parametrize("text", ["lorentz:2", "sphere:3", "ball:5", "euclidean:2", "ball:2 x sphere:2", "ball:1"])
def test_points_of_any_space_fall_inside_the_disk(text):
    manifold, dim = hgeo.space(text)
    points = hgeo.exp0(manifold, 0.7 * torch.randn(20, dim, generator=torch.Generator().manual_seed(0)))
    shown = disk_coordinates(points, manifold)
    assert shown.shape == (20, 2)
    assert (shown.norm(dim=1) < 1).all()


def test_ball_and_hyperboloid_of_the_same_plane_look_the_same():
    vectors = torch.randn(6, 2, generator=torch.Generator().manual_seed(1)).double()
    ball, lorentz = hgeo.space("ball:2").manifold, hgeo.space("lorentz:2").manifold
    here = disk_coordinates(hgeo.exp0(ball, vectors), ball)
    there = disk_coordinates(hgeo.exp0(lorentz, 2 * vectors), lorentz)  # a unit vector of the ball is two long
    assert torch.allclose(here, there, atol=1e-6)


def test_edges_are_drawn_as_arcs_at_right_angles_to_the_boundary():
    points = torch.tensor([[0.6, 0.1], [-0.1, 0.7]]).double()
    curve = _geodesics(points, torch.tensor([[0], [1]]))[0]
    assert np.allclose(curve[[0, -1]], points.numpy())
    # a circle with centre c and radius r meets the unit circle at right angles if |c|² = 1 + r²; so for every point p
    # of it 2⟨c, p⟩ = 1 + |p|²
    centre, *_ = np.linalg.lstsq(2 * curve, 1 + (curve**2).sum(axis=1), rcond=None)
    assert np.allclose(2 * curve @ centre, 1 + (curve**2).sum(axis=1), atol=1e-9)


def test_sixteen_classes_have_sixteen_looks():
    assert len({(color_of(label), marker_of(label)) for label in range(16)}) == 16


def test_neighbouring_classes_differ_in_shape_as_well_as_in_colour():
    for label in range(15):
        assert color_of(label) != color_of(label + 1)
        assert marker_of(label) != marker_of(label + 1)


def test_a_figure_is_saved_as_png_and_svg_and_the_same_twice(tmp_path):
    club = karate()
    points = torch.randn(34, 2, generator=torch.Generator().manual_seed(0))
    for name in ("a", "b"):
        figure = embedding_figure(points, edge_index=club.edge_index, labels=club.labels, title="club")
        written = save_figure(figure, tmp_path / name)
        assert [path.suffix for path in written] == [".png", ".svg"]
    for suffix in (".png", ".svg"):
        assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


def test_a_comparison_has_a_panel_for_each_model():
    points = torch.rand(34, 2) - 0.5
    ball, flat = hgeo.space("ball:2").manifold, hgeo.space("euclidean:2").manifold
    figure = comparison_figure([("hat", points, ball), ("gat", points, flat)], labels=karate().labels)
    assert [axes.get_title() for axes in figure.axes] == ["hat", "gat"]


def test_the_page_is_whole_and_holds_the_points():
    club = karate()
    points = torch.rand(34, 2, generator=torch.Generator().manual_seed(0)) - 0.5
    ball = hgeo.PoincareBall(c=1.0)
    page = embedding_page(points, ball, edge_index=club.edge_index, labels=club.labels, title="</script><b>club")
    assert "@DATA@" not in page
    assert "@TITLE@" not in page
    assert "<b>club" not in page
    assert not re.search(r"(src|href)\s*=|https?://|import\(|fetch\(", page)  # nothing from elsewhere
    data = json.loads(re.search(r'type="application/json">(.*?)</script>', page, re.S).group(1))
    assert np.allclose(np.stack([data["x"], data["y"]], axis=1), points.numpy(), atol=1e-9)
    assert len(data["source"]) == 78
    assert data["label"] == club.labels.tolist()


def test_curves_need_an_epoch():
    with pytest.raises(ValueError, match="no finished epoch"):
        curves_figure([])


def test_an_epoch_without_a_finite_loss_is_not_the_best_one_in_the_picture():
    rows = [{"epoch": e, "loss": 1.0, "val_loss": 1.0, "val_accuracy": 0.5} for e in range(3)]
    rows[2] |= {"val_loss": None, "val_accuracy": 0.9}
    legend = curves_figure(rows).axes[1].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["validation", "best: 0.500"]


def test_the_legend_says_why_training_loss_lies_above_validation_loss():
    rows = [{"epoch": e, "loss": 1.0, "val_loss": 1.0, "val_accuracy": 0.5} for e in range(3)]
    legend = [text.get_text() for text in curves_figure(rows).axes[0].get_legend().get_texts()]
    assert legend == ["training: dropout,\nsmoothed labels", "validation: neither"]


def test_a_curvature_that_moves_gets_a_panel_and_one_that_rests_does_not():
    rows = [{"epoch": e, "loss": 1.0, "val_loss": 1.0, "val_accuracy": 0.5, "curvatures": [-1.0]} for e in range(3)]
    assert [axes.get_title() for axes in curves_figure(rows).axes] == ["loss", "accuracy"]
    rows[2] = {**rows[2], "curvatures": [-0.9]}
    assert [axes.get_title() for axes in curves_figure(rows).axes] == ["loss", "accuracy", "curvature"]


def test_attention_rows_name_each_neighbour_with_its_own_weight():
    club = karate()
    layer = hgeo.nn.HATConv(34, 2, hgeo.PoincareBall(c=1.0), heads=2)
    with torch.no_grad():
        _, attention = layer(club.graph, club.features, return_attention=True)
    rows = attention_rows(club.edge_index, club.labels, attention, 16)
    assert {row.node for row in rows} == {5, 6, 16}
    assert sum(row.weight for row in rows) == pytest.approx(1.0, abs=1e-5)
    assert [row.weight for row in rows] == sorted((row.weight for row in rows), reverse=True)
    assert all(row.label == int(club.labels[row.node]) for row in rows)
    edge = int(((club.edge_index[0] == 5) & (club.edge_index[1] == 16)).nonzero())
    weight = next(row.weight for row in rows if row.node == 5)
    assert weight == pytest.approx(attention.edges[edge].mean().item())


def test_attention_of_a_node_that_is_not_there_is_refused():
    club = karate()
    with pytest.raises(ValueError, match=r"node is 34, expected 0 … 33"):
        attention_rows(club.edge_index, club.labels, (torch.zeros(156, 1), torch.zeros(34, 1)), 34)


def test_the_attention_figure_says_how_many_it_leaves_out():
    rows = [Listener(0, 0, 0.5), *[Listener(node, node % 3, 0.5 / 40) for node in range(1, 41)]]
    figure = attention_figure(rows, 0, most=10)
    assert "30 lighter ones not shown" in figure.axes[0].get_title()
    assert attention_table(rows, 0).count("\n") == 42


def test_a_picture_that_cannot_be_drawn_leaves_the_old_one(tmp_path):
    class Broken(Figure):
        def savefig(self, file, **_):
            file.write(b"half")
            raise RuntimeError("no more")

    (tmp_path / "a.png").write_bytes(b"old")
    with pytest.raises(RuntimeError, match="no more"):
        save_figure(Broken(), tmp_path / "a")
    assert (tmp_path / "a.png").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]
