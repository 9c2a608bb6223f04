"""Folders of parts hold the graph that was cut, are whole or not there, and are read with care."""

import json

import numpy as np
import pytest
import torch

from hgeo.cli import main
from hgeo.data import DataError, check_part, hierarchy, karate, load, read_parts, write_parts

dgl = pytest.importorskip("dgl")


@pytest.fixture
def file(tmp_path):
    return write_parts(karate(), 2, tmp_path / "club")


def test_the_nodes_of_a_cut_graph_keep_labels_and_parts_under_new_numbers(file):
    whole, cut = karate(), load(str(file))
    with np.load(file.parent / "nodes.npz") as arrays:
        original = torch.from_numpy(arrays["original"])
    assert torch.equal(cut.labels, whole.labels[original])
    for part in ("train_idx", "val_idx", "test_idx"):
        assert torch.equal(original[getattr(cut, part)], getattr(whole, part))  # in the same order
    assert (cut.num_nodes, cut.num_features, cut.num_classes) == (34, whole.num_features, 2)
    assert cut.num_edges == 0
    assert cut.parts.count == 2


def test_the_parts_together_have_every_edge_of_the_graph(file):
    whole, edges = karate(), set()
    with np.load(file.parent / "nodes.npz") as arrays:
        original = torch.from_numpy(arrays["original"])
    for number in (0, 1):
        graph, *_ = dgl.distributed.load_partition(str(file.parent / "graph.json"), number)
        ids = original[graph.ndata[dgl.NID]]
        own = graph.edata["inner_edge"].bool()
        source, destination = (ends[own] for ends in graph.edges())
        edges |= set(zip(ids[source].tolist(), ids[destination].tolist(), strict=True))
    assert edges == set(zip(*whole.edge_index.tolist(), strict=True))


def test_a_damaged_or_foreign_folder_is_refused(file, tmp_path):
    other = write_parts(hierarchy(), 2, tmp_path / "tree")
    nodes = file.parent / "nodes.npz"
    kept = nodes.read_bytes()
    nodes.write_bytes((other.parent / "nodes.npz").read_bytes())
    with pytest.raises(DataError, match=r"nodes\.npz belongs to a partition of another graph"):
        read_parts(file)
    nodes.write_bytes(kept)
    part = file.parent / "part1" / "graph.dgl"
    part.write_bytes(part.read_bytes()[:-1])
    parts = read_parts(file).parts
    check_part(parts, 0)
    with pytest.raises(DataError, match=r"part1/graph\.dgl belongs to a partition of another graph, or is damaged"):
        check_part(parts, 1)
    with pytest.raises(DataError, match="names no files of part 2"):
        check_part(parts, 2)
    with pytest.raises(DataError, match="is not what it was"):
        read_parts(file, sha256="0" * 64)


@pytest.mark.parametrize("text", ["{", "[]", '{"parts": 2}', '{"name": 1, "parts": "x"}'])
def test_a_file_that_hgeo_did_not_write_is_refused(text, file):
    file.write_text(text)
    with pytest.raises(DataError, match=r"is not JSON|is not what hgeo partition writes"):
        read_parts(file)


def test_a_file_that_names_files_elsewhere_is_refused(file):
    described = json.loads(file.read_text())
    described["files"]["part0/../../outside"] = "0"
    file.write_text(json.dumps(described))
    with pytest.raises(DataError, match="is not what hgeo partition writes"):
        read_parts(file)


def test_hgeo_partition_says_what_is_wrong_and_writes_nothing(tmp_path, capsys):
    out = tmp_path / "parts"
    assert main(["partition", "karate", "--parts", "40", "--out", str(out)]) == 2
    assert "34 nodes and cannot be cut into 40 parts" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert main(["partition", "karate", "--out", str(out)]) == 0
    assert str(out / "hgeo.parts.json") in capsys.readouterr().out
    assert main(["partition", "karate", "--out", str(out)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["parts"]
