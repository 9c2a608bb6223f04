"""Airport and Disease, read from HGCN's own files, with its splits and features and with clean ones."""

import hashlib
import os
import pickle
from pathlib import Path

import networkx
import numpy as np
import pytest
import torch
from raw_files import calls, write_airport, write_disease

from hgeo.data import DataError, DataWarning, available, load, stratified_split
from hgeo.data._splits import _hgcn_split
from hgeo.tasks import split_links


@pytest.mark.parametrize("old", [True, False], ids=["as HGCN's", "as of today's networkx"])
def test_airport_is_the_graph_that_its_pickle_describes(tmp_path, old):
    raw = write_airport(tmp_path / "hgcn" / "airport", old=old)
    graph = pickle.loads((raw / "airport.p").read_bytes())
    table = np.array([graph.nodes[node]["feat"] for node in graph])
    data = load("airport", data_dir=tmp_path, features="raw")
    np.testing.assert_array_equal(data.features, table[:, :4].astype(np.float32))
    adjacency = networkx.to_numpy_array(graph)
    np.fill_diagonal(adjacency, 0)
    assert sorted(zip(*data.edge_index.tolist(), strict=True)) == sorted(map(tuple, np.argwhere(adjacency).tolist()))
    wealth = table[:, 4]
    expected = (wealth >= 8 / 7).astype(int) + (wealth >= 9 / 7)  # above 1, all of them
    np.testing.assert_array_equal(data.labels, expected)


def test_a_pickle_of_a_graph_that_names_code_is_refused(tmp_path, bomb):
    raw = write_airport(tmp_path / "hgcn" / "airport")
    for content in (bomb.pickled, calls(eval, "1")):
        (raw / "airport.p").write_bytes(content)
        with pytest.raises(DataError, match="it was not run"):
            load("airport", data_dir=tmp_path)
    assert not bomb.went_off


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pickle.dumps({}), "holds a dict, expected a networkx graph"),
        (pickle.dumps(networkx.Graph([(0, 1)]), protocol=3), "is no graph with 'feat' at its nodes"),
        (b"\x80\x03cnetworkx.classes.graph\nGraph\n)\x81.", "is no graph with 'feat' at its nodes"),
        (b"\x80\x03cnetworkx.classes.graph\nGraph\n)\x81}b.", "cannot be read"),
    ],
)
def test_a_pickle_without_the_fields_of_airport_gives_an_error_of_one_line(tmp_path, content, message):
    raw = write_airport(tmp_path / "hgcn" / "airport")
    (raw / "airport.p").write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        load("airport", data_dir=tmp_path)
    assert "\n" not in str(caught.value)


def test_disease_is_read_with_its_features_or_says_that_it_has_none(tmp_path):
    write_disease(tmp_path / "hgcn" / "disease_lp")
    data = load("disease", data_dir=tmp_path)
    assert (data.num_nodes, data.num_edges, data.num_features, data.num_classes) == (50, 98, 4, 2)
    assert not data.is_sparse
    write_disease(tmp_path / "hgcn" / "disease_nc", features=False)
    with pytest.warns(DataWarning, match=r"there is no .*disease_nc\.feats\.npz; each node gets a feature of its own"):
        alone = load("disease-nc", data_dir=tmp_path)
    assert alone.num_features == 50
    assert alone.is_sparse


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda raw: (raw / "disease_lp.edges.csv").write_text("a,b\nc\n"), r"edges\.csv, line 2: expected two nodes"),
        (lambda raw: (raw / "disease_lp.edges.csv").write_text("a,b\n"), "names 2 nodes, and there are 50 labels"),
        (lambda raw: (raw / "disease_lp.labels.npy").write_bytes(b"no"), "disease: .* is damaged"),
        (lambda raw: (raw / "disease_lp.labels.npy").unlink(), r"no file .*disease_lp\.labels\.npy"),
    ],
)
def test_a_damaged_file_of_disease_is_named(tmp_path, damage, message):
    damage(write_disease(tmp_path / "hgcn" / "disease_lp"))
    with pytest.raises((DataError, FileNotFoundError), match=message):
        load("disease", data_dir=tmp_path)


def test_hgcns_files_are_found_below_the_folder_or_beside_it(tmp_path, no_network):
    write_disease(tmp_path / "hgcn" / "disease_lp")
    (tmp_path / "dgl").mkdir()
    for folder in (tmp_path, tmp_path / "dgl"):
        assert available(folder) == (folder, ["disease"])
        assert load("disease", data_dir=folder).num_nodes == 50
    with pytest.raises(FileNotFoundError, match=r"no folder .*dgl/hgcn/airport, and https://.* cannot be downloaded"):
        load("airport", data_dir=tmp_path / "dgl")


def test_missing_files_are_downloaded_one_by_one(tmp_path, monkeypatch):
    write_airport(tmp_path / "served" / "airport")
    monkeypatch.setattr("hgeo.data._named._HGCN_ADDRESS", (tmp_path / "served").as_uri())
    assert load("airport", data_dir=tmp_path / "mine").num_nodes == 60
    assert [path.name for path in (tmp_path / "mine" / "hgcn").rglob("*")] == ["airport", "airport.p"]


def test_the_official_split_is_that_of_hgcns_code():
    """The numbers are what HGCN's ``split_data`` gives for these labels and the seed 3."""
    four = np.array([0, 1, 2, 3, 1, 0, 2, 2, 3, 1, 0, 0, 1, 2, 3, 3, 0, 1])
    train, val, test = _hgcn_split(four, 0.15, 0.15, seed=3)
    assert (val.tolist(), test.tolist()) == ([8, 6, 5, 13], [2, 3, 2, 3])
    assert train.tolist() == [17, 7, 9, 1, 15, 4, 13, 12, 14, 11, 15, 16, 6, 0, 8, 10, 7, 14]
    two = np.array([0, 1, 0, 1, 1, 0, 0, 0, 0, 1, 0, 0, 1, 0, 1, 0, 0, 1])
    train, val, test = _hgcn_split(two, 0.1, 0.6, seed=3)
    assert (val.tolist(), test.tolist()) == ([12, 16], [17, 14, 9, 3, 10, 7, 11, 15])
    assert train.tolist() == [1, 4, 2, 13, 5, 6, 8, 0]


def test_the_official_split_says_what_is_wrong_with_it(tmp_path):
    write_airport(tmp_path / "hgcn" / "airport")
    with pytest.warns(DataWarning, match=r"leaks: it treats 3 classes as two, so that (\d+) of \d+ test entries"):
        data = load("airport", data_dir=tmp_path, split="official", split_seed=1234)
    assert set(data.test_idx.tolist()) & set(data.train_idx.tolist())
    write_disease(tmp_path / "hgcn" / "disease_lp")
    with pytest.warns(DataWarning, match=r"50% positives, on which 'positive' everywhere scores an F1 of 0\.667"):
        load("disease", data_dir=tmp_path, split="official")


def test_the_clean_split_has_the_same_shares_of_every_class_and_no_node_twice(tmp_path):
    label = np.repeat([0, 1, 2, -1], [100, 40, 60, 5])
    train, val, test = stratified_split(label, (0.7, 0.15, 0.15), seed=5)
    assert [np.bincount(label[part]).tolist() for part in (train, val, test)] == [[70, 28, 42], [15, 6, 9], [15, 6, 9]]
    assert sorted([*train, *val, *test]) == list(range(200))
    assert not np.array_equal(stratified_split(label, (0.7, 0.15, 0.15), seed=6)[0], train)
    write_disease(tmp_path / "hgcn" / "disease_lp")
    data = load("disease", data_dir=tmp_path, split_seed=3)
    assert [len(part) for part in (data.train_idx, data.val_idx, data.test_idx)] == [15, 5, 30]
    other = load("disease", data_dir=tmp_path, split="clean", split_seed=3)
    assert torch.equal(data.test_idx, other.test_idx)


def test_every_data_set_has_splits_by_name():
    karate = load("karate", split="clean")
    assert [len(part) for part in (karate.train_idx, karate.val_idx, karate.test_idx)] == [24, 4, 6]
    assert len(load("hierarchy", split="few").train_idx) == 120
    with pytest.raises(DataError, match="karate has no official split; choose clean or few"):
        load("karate", split="official")
    with pytest.raises(DataError, match="no split 'half'; known: official, clean, few"):
        load("karate", split="half")


def test_a_users_file_of_that_name_is_not_airport(tmp_path):
    file = tmp_path / "airport.npz"
    masks = {f"{part}_mask": np.arange(8) % 4 == number for number, part in enumerate(("train", "val", "test"))}
    masks["train_mask"] |= np.arange(8) == 3
    np.savez(
        file, edge_index=np.array([[0, 1, 2, 3], [4, 5, 6, 7]]), feat=np.eye(8), label=[0, 0, 0, 1, 1, 1, 1, 1], **masks
    )
    assert load(file, features="hgcn").train_idx.tolist() == [0, 3, 4]
    assert load(file, features="hgcn").num_features == 8
    with pytest.raises(DataError, match="has no official split"):
        load(file, split="official")


def test_features_are_prepared_by_name(tmp_path):
    write_airport(tmp_path / "hgcn" / "airport")

    def features(name):
        return load("airport", data_dir=tmp_path, features=name).features.double()

    raw = features("raw")
    assert torch.equal(features("standardised"), features("auto"))
    torch.testing.assert_close(
        features("auto").std(0, correction=0), torch.full((4,), 0.5, dtype=torch.float64), rtol=1e-5, atol=0
    )
    torch.testing.assert_close(features("hgcn")[:, :4], raw / raw.sum(1, keepdim=True), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(features("rows").abs().sum(1), torch.ones(60, dtype=torch.float64), rtol=1e-5, atol=0)
    assert features("hgcn-links").shape[1] == 5 + 7
    with pytest.raises(DataError, match=r"no features 'raw\+degree'; known: auto, raw"):
        features("raw+degree")


@pytest.mark.parametrize("name", ["karate", "hierarchy"])
def test_degrees_are_features_on_request_and_are_those_of_the_links_that_are_left(name):
    plain, counted = load(name), load(name, features="auto+degrees")
    dense = counted.features.to_dense()
    assert torch.equal(dense[:, :-7], plain.features.to_dense())
    degree = torch.bincount(plain.edge_index[1], minlength=plain.num_nodes)
    assert torch.equal(dense[:, -7:-1].argmax(1), degree.clamp(max=5))
    assert float(dense[:, -1].mean()) == pytest.approx(0, abs=1e-5)
    split = split_links(counted, seed=0).dataset
    left = torch.bincount(split.edge_index[1], minlength=plain.num_nodes)
    assert torch.equal(split.features.to_dense()[:, -7:-1].argmax(1), left.clamp(max=5))
    assert torch.equal(split.features.to_dense()[:, :-7], dense[:, :-7])
    assert not torch.equal(left, degree)
    with pytest.raises(DataError, match="has features of degrees already"):
        counted.with_counted("degrees")


def folder_of(name):
    root = Path(os.environ.get("HGEO_DATA", "nowhere"))
    there = name in available(root)[1]
    return pytest.param(name, marks=[pytest.mark.data, pytest.mark.skipif(not there, reason=f"{root} has no {name}")])


# nodes, edges, features, classes, clean parts; SHA-256 of the indices of HGCN's own split for the seed 1234
REAL = {
    "airport": ((3188, 37260, 4, 4), (2232, 478, 478), ("b508637a2a178aa8", "a569280560b17bca", "a8212f3895c11fcf")),
    "disease": ((2665, 5328, 11, 2), (800, 266, 1599), None),
    "disease-nc": (
        (1044, 2086, 1044, 2),
        (313, 104, 627),
        ("6e3947408cb9050f", "83d3cc808b0d4b4e", "a4f511887c6368a8"),
    ),
}


@pytest.mark.filterwarnings("ignore:.*there is no .*feats", "ignore:.*the official split")
@pytest.mark.parametrize("name", [folder_of(name) for name in REAL])
def test_real_data_have_the_published_sizes_and_hgcns_split(name):
    sizes, parts, hashes = REAL[name]
    data = load(name)
    assert (data.num_nodes, data.num_edges, data.num_features, data.num_classes) == sizes
    assert tuple(len(part) for part in (data.train_idx, data.val_idx, data.test_idx)) == parts
    official = load(name, split="official", split_seed=1234, features="hgcn")
    found = [
        hashlib.sha256(part.numpy().tobytes()).hexdigest()[:16]
        for part in (official.train_idx, official.val_idx, official.test_idx)
    ]
    assert hashes is None or found == list(hashes)
    if name == "airport":
        assert official.num_features == 11
        leaked = np.isin(official.test_idx, official.train_idx).mean()
        assert round(float(leaked), 2) in (0.43, 0.44, 0.45, 0.46)
