"""DGL's data sets by name. Tests that read real data are marked; the others need neither data nor a network."""

import gzip
import os
import socket
import stat
from pathlib import Path

import pytest
import torch

from hgeo.data import load
from hgeo.data._named import _writable


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*_, **__):
        raise OSError("no network in this test")

    monkeypatch.setattr(socket, "create_connection", refuse)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("name", "folder"), [("cora", "cora_v2_d697a464"), ("computers", "amazon_co_buy_computer_b5999b2e")]
)
def test_without_data_and_network_one_line_says_what_was_looked_for_where(no_network, tmp_path, name, folder):
    with pytest.raises(FileNotFoundError) as caught:
        load(name, data_dir=tmp_path)
    message = str(caught.value)
    assert str(tmp_path / folder) in message
    assert "HGEO_DATA" in message
    assert "\n" not in message


def test_the_environment_names_the_folder(no_network, tmp_path, monkeypatch):
    monkeypatch.setenv("HGEO_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=str(tmp_path)):
        load("citeseer")


def test_arxiv_is_read_from_the_files_of_its_archive(tmp_path):
    def write(path, rows):
        path.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(path, "wt") as file:
            file.writelines(f"{row}\n" for row in rows)

    root = tmp_path / "arxiv"
    write(root / "raw" / "edge.csv.gz", ["0,1", "1,2", "3,0"])
    write(root / "raw" / "node-feat.csv.gz", ["0.5,-1", "1,2", "-3,4", "0,0"])
    write(root / "raw" / "node-label.csv.gz", [0, 1, 1, 0])
    for part, nodes in (("train", [0, 2]), ("valid", [1]), ("test", [3])):
        write(root / "split" / "time" / f"{part}.csv.gz", nodes)
    data = load("ogbn-arxiv", data_dir=tmp_path)
    assert (data.num_nodes, data.num_edges, data.test_idx.tolist()) == (4, 6, [3])


def test_arxiv_that_is_not_there_says_where_to_unpack_it(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"edge\.csv\.gz; unpack"):
        load("ogbn-arxiv", data_dir=tmp_path)


def test_a_folder_without_write_permission_is_shadowed_by_links(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    raw = tmp_path / "raw" / "set"
    raw.mkdir(parents=True)
    (raw / "file").write_text("content")
    for folder in (raw, raw.parent):
        folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        shadow = _writable(raw.parent, "set")
        assert shadow != raw.parent
        assert (shadow / "set" / "file").read_text() == "content"
        (shadow / "set" / "processed").write_text("by DGL")
        assert sorted(file.name for file in raw.iterdir()) == ["file"]
    finally:
        for folder in (raw.parent, raw):
            folder.chmod(stat.S_IRWXU)


def test_a_writable_folder_is_used_as_it_is(tmp_path):
    assert _writable(tmp_path, "set") == tmp_path


def available(name, folder):
    where = Path(os.environ.get("HGEO_DATA", "")) / folder
    return pytest.param(
        name, marks=[pytest.mark.data, pytest.mark.skipif(not where.is_dir(), reason=f"HGEO_DATA holds no {folder}")]
    )


@pytest.mark.parametrize(
    "name",
    [
        available("cora", "cora_v2_d697a464"),
        available("citeseer", "citeseer_d6836239"),
        available("photo", "amazon_co_buy_photo_b75d805d"),
    ],
)
def test_real_data_have_the_published_sizes(name, capfd):
    data = load(name)
    expected = {
        "cora": (2708, 10556, 1433, 7, 140),
        "citeseer": (3327, 9104, 3703, 6, 120),
        "photo": (7650, 238162, 745, 8, 160),
    }[name]
    assert (data.num_nodes, data.num_edges, data.num_features, data.num_classes, len(data.train_idx)) == expected
    assert (len(data.val_idx), len(data.test_idx)) == (500, 1000)
    assert data.is_sparse
    words = data.features.to_dense()
    total = words.sum(dim=1)
    assert torch.allclose(total[total > 0], total.max(), rtol=1e-5)
    assert float(words.norm(dim=1).mean()) == pytest.approx(0.5, rel=1e-5)
    assert capfd.readouterr().out == ""
