"""Pictures show what is there: points where they are, edges as geodesics, classes that can be told apart."""

import json
import math
import re

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import hgeo
from hgeo.data import karate
from hgeo.viz import (
    Listener,
    Panel,
    attention_figure,
    attention_rows,
    attention_table,
    comparison_figure,
    curves_figure,
    embedding_figure,
    embedding_page,
    embedding_panels,
    radius_figure,
    save_figure,
    tree_branches,
    tree_figure,
)
from hgeo.viz._draw import spanning_forest
from hgeo.viz._palette import color_of, marker_of


def points_of(text, count=20, scale=0.7, seed=0):
    manifold, dim = hgeo.space(text)
    vectors = torch.randn(count, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return hgeo.exp0(manifold, scale * vectors), manifold


def test_a_hyperbolic_plane_is_shown_isometrically():
    points, ball = points_of("ball:2,c=4")
    (panel,) = embedding_panels(points, ball)
    unit = hgeo.math.dist(panel.points[:1], panel.points[1:], k=-1.0)
    assert torch.allclose(unit, 2.0 * hgeo.dist(ball, points[:1], points[1:]))  # √c times the distance


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("lorentz:2", ["disk"]),
        ("ball:5", ["disk"]),
        ("stereo:3,k=-0.5", ["disk"]),
        ("ball:5,c=0", ["plane"]),
        ("sphere:3", ["map"]),
        ("sproj:2", ["map"]),
        ("euclidean:4", ["plane"]),
        ("euclidean:1", ["plane"]),
        ("ball:2 x sphere:2 x euclidean:1", ["disk", "map", "plane"]),
    ],
)
def test_a_space_is_drawn_as_what_it_is_a_panel_a_factor(text, kinds):
    panels = embedding_panels(*points_of(text))
    assert [panel.kind for panel in panels] == kinds
    for panel in panels:
        assert panel.points.shape == (20, 2)
        assert panel.points.isfinite().all()
        assert panel.kind == "plane" or (panel.points.norm(dim=1) <= 1).all()


@pytest.mark.parametrize("text", ["ball:2", "lorentz:6", "sphere:2", "sphere:4", "euclidean:5"])
def test_the_middle_of_a_picture_is_the_frechet_mean_and_distances_to_it_are_exact(text):
    points, manifold = points_of(text, scale=0.4)
    moved = hgeo.manifolds.translate(manifold, points[3].expand_as(points), points)  # off the origin
    (panel,) = embedding_panels(moved, manifold)
    mean = hgeo.nn.Midpoint(manifold, how="frechet")(moved)
    assert torch.allclose(panel.radii, hgeo.dist(manifold, mean, moved), atol=1e-6)
    drawn = panel.points.norm(dim=1)
    if panel.kind == "disk":
        assert torch.allclose(2 * torch.atanh(drawn), panel.radii)
    if panel.kind == "map":
        assert torch.allclose(2 * torch.asin(drawn), panel.radii)
    if text in ("ball:2", "euclidean:5"):
        assert drawn.mean() > 0.1
        assert hgeo.nn.Midpoint(geoopt_of(panel), how="frechet")(panel.points).norm() < 1e-6


def geoopt_of(panel):
    return hgeo.PoincareBall(c=1.0).double() if panel.kind == "disk" else hgeo.space("euclidean:2").manifold


def test_ball_and_hyperboloid_of_the_same_plane_look_the_same():
    vectors = torch.randn(6, 2, generator=torch.Generator().manual_seed(1)).double()
    ball, lorentz = hgeo.space("ball:2").manifold, hgeo.space("lorentz:2").manifold
    (here,) = embedding_panels(hgeo.exp0(ball, vectors), ball)
    (there,) = embedding_panels(hgeo.exp0(lorentz, 2 * vectors), lorentz)  # a unit vector of the ball is two long
    assert torch.allclose(here.points, there.points, atol=1e-6)


def test_a_map_of_the_sphere_keeps_areas():
    # rows of points around the pole: each ring of the sphere between heights z and z' has the area 2π(z - z')
    heights = torch.tensor([0.9, 0.2, -0.5], dtype=torch.float64)
    turns = torch.arange(6, dtype=torch.float64) * math.pi / 3
    rings = [
        torch.stack([z.expand(6), *((1 - z**2).sqrt() * f(turns) for f in (torch.cos, torch.sin))], 1) for z in heights
    ]
    (panel,) = embedding_panels(torch.cat(rings), hgeo.space("sphere:2").manifold)
    squared = panel.points.norm(dim=1).view(3, 6).mean(1) ** 2
    assert torch.allclose(squared, (1 - heights) / 2, atol=1e-9)


def test_edges_are_drawn_as_arcs_at_right_angles_to_the_boundary():
    points = torch.tensor([[0.6, 0.1], [-0.1, 0.7]]).double()
    curve = Panel("disk", points, "", torch.zeros(2)).lines(torch.tensor([0]), torch.tensor([1]))[0].numpy()
    assert np.allclose(curve[[0, -1]], points.numpy())
    # a circle with centre c and radius r meets the unit circle at right angles if |c|² = 1 + r²; so for every point p
    # of it 2⟨c, p⟩ = 1 + |p|²
    centre, *_ = np.linalg.lstsq(2 * curve, 1 + (curve**2).sum(axis=1), rcond=None)
    assert np.allclose(2 * curve @ centre, 1 + (curve**2).sum(axis=1), atol=1e-9)


def test_edges_on_a_map_are_great_circles():
    panel = Panel("map", torch.tensor([[0.5, 0.1], [-0.3, 0.6]]).double(), "", torch.zeros(2))
    line = panel.lines(torch.tensor([0]), torch.tensor([1]))[0]
    squared = line.square().sum(1, keepdim=True)
    on_globe = torch.cat([2 * line * (1 - squared).sqrt(), 1 - 2 * squared], dim=1)
    assert torch.linalg.svdvals(on_globe)[2] < 1e-9  # in one plane through the middle of the globe


def test_a_disk_that_shows_its_rim_only_is_drawn_with_distances_kept():
    points, ball = points_of("ball:2", scale=4.0)
    (panel,) = embedding_panels(points, ball)
    polar = panel.to_read()
    assert (panel.kind, polar.kind) == ("disk", "polar")
    assert torch.allclose(polar.points.norm(dim=1) * polar.reach, polar.radii, rtol=1e-6)
    source, target = torch.tensor([0, 1]), torch.tensor([2, 3])
    assert torch.allclose(polar.lengths(source, target), panel.lengths(source, target), rtol=1e-5)
    near, manifold = points_of("ball:2", scale=0.5)
    assert embedding_panels(near, manifold)[0].to_read().kind == "disk"


def test_a_large_graph_is_drawn_by_the_shortest_edges_that_keep_it_together():
    corners = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.2], [5.0, 5.0]], dtype=torch.float64)
    panel = Panel("plane", corners, "", torch.zeros(5))
    circle = torch.tensor([[0, 1, 2, 3, 1, 4], [1, 2, 3, 0, 0, 4]])
    assert {tuple(sorted(edge)) for edge in spanning_forest(panel, circle).T.tolist()} == {(0, 1), (1, 2), (2, 3)}


def test_names_of_classes_stand_in_the_picture_and_do_not_cover_each_other():
    generator = torch.Generator().manual_seed(0)
    points, labels = 0.2 * torch.randn(600, 2, generator=generator), torch.arange(600) % 3
    names = ["one of the classes", "the second class", "third $x$ class"]
    figure = embedding_figure(points, labels=labels, class_names=names)
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts if text.get_text() in names]
    assert len(boxes) == 3
    assert not any(a.overlaps(b) for number, a in enumerate(boxes) for b in boxes[:number])


def test_mistakes_are_counted_and_drawn_beside_the_truth():
    points, labels = torch.rand(40, 2), torch.arange(40) % 2
    predicted = labels.clone()
    predicted[:5] = 1 - predicted[:5]
    labels[39] = -1
    figure = embedding_figure(points, labels=labels, predicted=predicted)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "true classes",
        "predicted: 5 of 39 wrong, in the colour of what was predicted",
    ]
    drawn = sum(len(found.get_offsets()) for found in figure.axes[1].collections if found.get_zorder() == 3)
    assert drawn == 5


def test_subtrees_are_numbered_by_size_and_a_large_one_is_taken_apart():
    # 0 over 1 and 2; 1 over 3, 4, 5; 2 over 6
    parents = np.array([-1, 0, 0, 1, 1, 1, 2])
    below = np.array([6, 3, 1, 0, 0, 0, 0])
    assert tree_branches(parents, below).tolist() == [-1, -1, 0, -1, -1, -1, 0]
    assert tree_branches(np.array([-1, 0, -1]), np.array([1, 0, 0])).tolist() == [-1, -1, -1]


def test_a_tree_has_names_along_the_rim_and_the_way_to_the_root():
    points, ball = points_of("ball:2", count=7, scale=0.8)
    (panel,) = embedding_panels(points, ball)
    parents, below = np.array([-1, 0, 0, 1, 1, 1, 2]), np.array([6, 3, 1, 0, 0, 0, 0])
    names = [f"$n{number}$" for number in range(7)]
    figure = tree_figure(panel, parents, below, names, way=6)
    assert "the way up:  $n6$  ›  $n2$  ›  $n0$" in [text.get_text() for text in figure.texts]
    assert "$n6$" in [text.get_text() for text in figure.axes[0].texts]


def test_degree_against_radius_says_how_they_are_ordered():
    degrees, radii = torch.arange(1, 31), torch.linspace(3, 1, 30)
    assert radius_figure(degrees, radii).axes[0].get_title(loc="right") == "rank correlation -1.00"


def test_sixteen_classes_differ_in_colour_or_shape():
    assert len({(color_of(label), marker_of(label)) for label in range(16)}) == 16


def test_neighbouring_classes_differ_in_shape_as_well_as_in_colour():
    for label in range(15):
        assert color_of(label) != color_of(label + 1)
        assert marker_of(label) != marker_of(label + 1)


def test_a_figure_is_saved_as_png_svg_and_pdf_and_the_same_twice(tmp_path):
    club = karate()
    points = torch.randn(34, 2, generator=torch.Generator().manual_seed(0))
    for name in ("a", "b"):
        figure = embedding_figure(points, edge_index=club.edge_index, labels=club.labels, title="club")
        written = save_figure(figure, tmp_path / name, ("png", "svg", "pdf"))
        assert [path.suffix for path in written] == [".png", ".svg", ".pdf"]
    for suffix in (".png", ".svg", ".pdf"):
        assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


def test_a_comparison_has_a_panel_for_each_model():
    points = torch.rand(34, 2) - 0.5
    ball, flat = hgeo.space("ball:2").manifold, hgeo.space("euclidean:2").manifold
    figure = comparison_figure([("hat", points, ball), ("gat", points, flat)], labels=karate().labels)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["hat", "gat"]


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
    (panel,) = data["panels"]
    shown = embedding_panels(points, ball)[0].points.numpy()
    assert np.allclose(np.stack([panel["x"], panel["y"]], axis=1), shown, atol=1e-12)
    assert (len(data["source"]), data["tree"]) == (78, 33)
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
