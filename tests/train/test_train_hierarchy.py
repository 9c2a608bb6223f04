"""Hierarchies are embedded, gone on with to the same bits, and judged on pairs that training never saw."""

import contextlib
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import hgeo
from hgeo.data import DataError, Pairs, random_taxonomy
from hgeo.kernels import hierarchy
from hgeo.train import HierarchyEmbedding, HierarchySettings, TaxonomyStudy, fit_hierarchy, guessed, load_vectors

TREE = random_taxonomy(20, seed=1).closure()
QUICK = HierarchySettings(epochs=8, burn_in=2, negatives=6, batch=8)
SPACES = ["lorentz:3", "lorentz:3,c=0.5", "ball:3", "ball:3,c=0", "euclidean:3", "inner:3"]


@pytest.mark.parametrize("space", ["lorentz:5", "ball:5"])
def test_a_small_tree_is_embedded_without_a_mistake(space):
    found = fit_hierarchy(TREE, space, epochs=600, negatives=10).rank(TREE)
    assert found.map == 1.0
    assert found.mean_rank == 1.0


@pytest.mark.parametrize("space", SPACES)
def test_the_compiled_epochs_are_those_of_autograd(space, monkeypatch):
    if hierarchy.available():
        pytest.skip(hierarchy.available())
    compiled = fit_hierarchy(TREE, space, QUICK)
    ranked = compiled.rank(TREE)
    monkeypatch.setattr(hierarchy, "available", lambda: "not wanted here")
    plain = fit_hierarchy(TREE, space, QUICK)
    torch.testing.assert_close(plain.points, compiled.points, rtol=1e-9, atol=1e-12)
    assert plain.rank(TREE) == ranked


@pytest.mark.parametrize("space", ["klein:3", "sphere:3", "ball:2 x euclidean:1"])
def test_any_space_can_hold_a_hierarchy(space):
    rows = []
    embedding = fit_hierarchy(TREE, space, replace(QUICK, epochs=30, lr=0.3), on_epoch=rows.append)
    hgeo.validate(embedding.manifold, embedding.points)
    assert rows[-1]["loss"] < 0.9 * rows[0]["loss"]
    untrained = fit_hierarchy(TREE, space, replace(QUICK, epochs=1, lr=1e-9))
    assert embedding.rank(TREE).map > 1.5 * untrained.rank(TREE).map


@pytest.mark.parametrize("loss", ["softmax", "cones"])
def test_an_interrupted_run_ends_with_the_same_bits(tmp_path, loss):
    settings = replace(QUICK, loss=loss)
    straight = fit_hierarchy(TREE, "lorentz:3", settings)

    class Stop(Exception):
        pass

    def stop(row):
        if row["epoch"] == 5:
            raise Stop

    with pytest.raises(Stop):
        fit_hierarchy(TREE, "lorentz:3", settings, folder=tmp_path, on_epoch=stop)
    with pytest.raises(ValueError, match="already holds a run"):
        fit_hierarchy(TREE, "lorentz:3", settings, folder=tmp_path)
    with pytest.raises(ValueError, match="had other settings"):
        fit_hierarchy(TREE, "lorentz:3", replace(settings, lr=0.2), folder=tmp_path, resume=True)
    again = fit_hierarchy(TREE, "lorentz:3", settings, folder=tmp_path, resume=True)
    assert torch.equal(again.points, straight.points)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == list(range(8))
    finished = fit_hierarchy(TREE, "lorentz:3", settings, folder=tmp_path, resume=True)
    assert torch.equal(finished.points, straight.points)


def test_a_checkpoint_in_the_middle_is_gone_on_from(tmp_path, monkeypatch):
    straight = fit_hierarchy(TREE, "ball:3", QUICK)
    clock = iter(range(0, 10**6, 100))  # every look at it is later than the time between two checkpoints
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    epochs = []

    def stop(row):
        epochs.append(row["epoch"])
        if epochs == [0, 1, 2, 3]:
            raise RuntimeError("the power is off")

    with pytest.raises(RuntimeError):
        fit_hierarchy(TREE, "ball:3", QUICK, folder=tmp_path, on_epoch=stop)
    again = fit_hierarchy(TREE, "ball:3", QUICK, folder=tmp_path, resume=True, on_epoch=stop)
    assert epochs == list(range(8))
    assert torch.equal(again.points, straight.points)


def test_training_sees_no_hidden_pair_neither_as_a_pair_nor_as_known(tmp_path, monkeypatch):
    if hierarchy.available():
        pytest.skip(hierarchy.available())
    monkeypatch.setattr("hgeo.train._taxonomy.SEARCHED", {"lr": (0.1, 0.2)})
    study = TaxonomyStudy(TREE, tmp_path, "lorentz:3", ("inner:3",), vars(QUICK), hold_out=0.4, splits=2, search=True)
    epoch, seen = hierarchy.epoch, []

    def watch(family, points, pairs, known, **options):
        starts, parents = known
        children = np.arange(len(starts) - 1).repeat(np.diff(starts))
        seen.append(({*map(tuple, pairs.tolist())}, {*zip(children.tolist(), parents.tolist(), strict=True)}))
        return epoch(family, points, pairs, known, **options)

    monkeypatch.setattr(hierarchy, "epoch", watch)
    study.run()
    parts = [study.split(split) for split in (0, 1)]
    secret = [{*map(tuple, hidden.index.tolist())} for _, hidden in parts]
    assert len(seen) == 2 * 2 * (2 + 1) * QUICK.epochs
    for number, (positives, kept) in enumerate(seen):
        hidden = secret[number // (len(seen) // 2)]
        assert positives == kept
        assert positives
        assert not positives & hidden


def test_hidden_pairs_are_ranked_among_what_is_not_known():
    pairs = Pairs(("a", "b", "c", "d"), np.array([(0, 1), (0, 2)]))
    known, hidden = Pairs(pairs.names, pairs.index[:1]), Pairs(pairs.names, pairs.index[1:])
    points = torch.tensor([[0.0], [0.1], [0.3], [0.2]], dtype=torch.float64)
    embedding = HierarchyEmbedding(pairs.names, points, "euclidean:1")
    assert embedding.rank(hidden, known) == (0.5, 2.0)  # d is nearer; b is nearer too, but known
    assert embedding.rank(hidden) == (1 / 3, 3.0)
    assert embedding.rank(pairs) == ((1 + 2 / 3) / 2, 1.5)
    same = HierarchyEmbedding(pairs.names, torch.zeros(4, 1, dtype=torch.float64), "euclidean:1")
    assert same.rank(pairs).mean_rank == 2.0  # where all are equal nothing is gained


def test_the_guess_without_learning_takes_parents_of_parents_first():
    names = ("a", "b", "c", "d", "e")
    known = Pairs(names, np.array([(0, 1), (1, 2), (3, 4), (2, 4)]))
    assert guessed(Pairs(names, np.array([(0, 2)])), known) == (0.5, 2.0)  # e has more children
    assert guessed(Pairs(names, np.array([(0, 4)])), known) == (1.0, 1.0)


def test_cones_hold_what_is_below():
    embedding = fit_hierarchy(TREE, "ball:5", epochs=60, loss="cones", negatives=20)
    child, parent = embedding.points[TREE.index[:, 0]], embedding.points[TREE.index[:, 1]]
    up, down = (hgeo.cone_energy(embedding.manifold, *ends).mean() for ends in ((parent, child), (child, parent)))
    assert up < 0.2 * down
    assert embedding.rank(TREE).map > 0.7
    with pytest.raises(ValueError, match="cones need a hyperbolic space"):
        fit_hierarchy(TREE, "euclidean:3", loss="cones")


def test_vectors_keep_their_names(tmp_path):
    embedding = fit_hierarchy(TREE, "lorentz:3", QUICK)
    embedding.save(tmp_path / "vectors.npz")
    again = load_vectors(tmp_path / "vectors.npz")
    assert (again.names, again.space, again.loss) == (embedding.names, "lorentz:3", "softmax")
    assert torch.equal(again.points, embedding.points)
    near = again.nearest("root", k=3)
    distances = hgeo.dist(again.manifold, again.points[0], again.points)[1:].sort()
    assert [name for name, _ in near] == [TREE.names[1 + place] for place in distances.indices[:3].tolist()]
    assert [distance for _, distance in near] == distances.values[:3].tolist()
    with pytest.raises(DataError, match="no node is called 'rot'; did you mean root"):
        again.nearest("rot")


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"names": np.array(["a", "b", "a"])}, "the name 'a' is there twice"),
        ({"names": np.array(["a", "b"])}, "2 names and points of shape"),
        ({"names": np.array(["a", object()], dtype=object)}, r"is no \.npz file of vectors"),
    ],
)
def test_a_wrong_file_of_vectors_is_refused(tmp_path, arrays, words):
    np.savez(tmp_path / "x.npz", points=np.zeros((3, 2)), space="ball:2", **arrays)
    with pytest.raises(DataError, match=words):
        load_vectors(tmp_path / "x.npz")
    np.savez_compressed(tmp_path / "x.npz", names=np.array(list("abcd")), points=np.zeros((4, 2)), space="ball:2")
    whole = (tmp_path / "x.npz").read_bytes()
    for place in range(30, 300, 3):  # whatever zlib and zipfile say of it
        (tmp_path / "x.npz").write_bytes(whole[:place] + bytes(40) + whole[place + 40 :])
        with contextlib.suppress(DataError):
            load_vectors(tmp_path / "x.npz")
    (tmp_path / "x.npz").write_bytes(b"PK nothing")
    with pytest.raises(DataError, match=r"no \.npz file"):
        load_vectors(tmp_path / "x.npz")


def test_wrong_requests_say_what_was_expected():
    with pytest.raises(ValueError, match="the loss is 'softmax' or 'cones', got 'triplet'"):
        HierarchySettings(loss="triplet")
    with pytest.raises(ValueError, match="temperature must be greater than 0, got 0"):
        HierarchySettings(temperature=0)
    with pytest.raises(ValueError, match="leave out 'learn'"):
        fit_hierarchy(TREE, "ball:3,c=learn")
    with pytest.raises(DataError, match="two nodes and a pair, got 1 and 0"):
        fit_hierarchy(Pairs(("a",), np.empty((0, 2), dtype=np.int64)))
