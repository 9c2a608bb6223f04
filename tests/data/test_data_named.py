"""DGL's data sets by name. Tests that read real data are marked; the others need neither data nor a network."""

import gzip
import hashlib
import os
import shutil
import stat
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from raw_files import FOLDERS, by_dgl, plant_processed_cache, same_data, write_benchmark, write_citation

from hgeo.data import DataError, Origin, load


@pytest.mark.parametrize(
    ("name", "folder"), [("cora", "cora_v2_d697a464"), ("computers", "amazon_co_buy_computer_b5999b2e")]
)
def test_without_data_and_network_the_error_lists_the_files_and_folders_tried(no_network, tmp_path, name, folder):
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


def test_an_archive_is_downloaded_into_a_folder_that_is_there_whole_or_not_at_all(tmp_path, monkeypatch):
    served = write_benchmark(tmp_path / "served" / "amazon_co_buy_photo.npz")
    with zipfile.ZipFile(served.with_suffix(".zip"), "w") as archive:
        archive.write(served, "inside/amazon_co_buy_photo.npz")
        archive.writestr("../outside", "never unpacked")
    monkeypatch.setattr("hgeo.data._named._DGL_ADDRESS", served.parent.as_uri())
    data = load("photo", data_dir=tmp_path / "mine")
    assert data.num_nodes == 60
    assert [path.name for path in (tmp_path / "mine").rglob("*")] == [
        "amazon_co_buy_photo_b75d805d",
        "amazon_co_buy_photo.npz",
    ]
    served.with_suffix(".zip").rename(served.parent / "amazon_co_buy_computer.zip")
    with pytest.raises(FileNotFoundError, match=r"no folder .*computer_b5999b2e, and file:.* cannot be downloaded"):
        load("computers", data_dir=tmp_path / "mine")
    assert len(list((tmp_path / "mine").iterdir())) == 1


def test_a_folder_of_raw_files_is_only_read(tmp_path):
    raw = write_citation(tmp_path / "cora_v2_d697a464", "cora_v2")
    there = sorted(raw.iterdir())
    for folder in (raw, tmp_path):
        folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        load("cora", data_dir=tmp_path)
        assert sorted(raw.iterdir()) == there
    finally:
        for folder in (tmp_path, raw):
            folder.chmod(stat.S_IRWXU)


@pytest.mark.parametrize("name", ["cora", "citeseer", "pubmed", "photo", "computers", "cs", "physics"])
def test_a_data_set_is_to_the_bit_what_dgl_makes_of_its_raw_files(tmp_path, name):
    """Of small files in the layout of the real ones: Citeseer's has nodes without a row, rows of zeros are in all."""
    folder = tmp_path / FOLDERS[name]
    archive = folder.name.rpartition("_")[0]
    if name in ("cora", "citeseer", "pubmed"):
        write_citation(folder, archive, dtype="f8" if name == "pubmed" else "f4", without_row=3 * (name == "citeseer"))
    else:
        write_benchmark(folder / f"{archive}.npz")
    same_data(load(name, data_dir=tmp_path, split_seed=4), by_dgl(name, tmp_path, split_seed=4))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda raw: (raw / "ind.cora_v2.tx").unlink(), r"no file .*ind\.cora_v2\.tx"),
        (lambda raw: (raw / "ind.cora_v2.tx").write_bytes(b"\x80"), r"ind\.cora_v2\.tx cannot be read: "),
        (lambda raw: (raw / "ind.cora_v2.y").write_bytes((raw / "ind.cora_v2.x").read_bytes()), r"x?y holds a _Csr"),
        (lambda raw: (raw / "ind.cora_v2.test.index").write_text("3\n"), r"test\.index has 1 numbers that do not fit"),
        (lambda raw: (raw / "ind.cora_v2.test.index").write_text("three\n"), r"cora: .* is damaged"),
    ],
)
def test_a_damaged_raw_file_is_named(tmp_path, damage, message):
    damage(write_citation(tmp_path / "cora_v2_d697a464", "cora_v2"))
    with pytest.raises((DataError, FileNotFoundError), match=message) as caught:
        load("cora", data_dir=tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("part", ["adj_indices", "attr_indices"])
@pytest.mark.parametrize("place", [-1, 60, 2**31 - 1])
def test_a_matrix_whose_indices_point_outside_of_it_is_refused_before_anything_follows_them(tmp_path, part, place):
    file = write_benchmark(tmp_path / FOLDERS["photo"] / "amazon_co_buy_photo.npz")
    with np.load(file, allow_pickle=True) as archive:
        arrays = dict(archive)
    arrays[part][0] = place
    np.savez(file, **arrays)
    with pytest.raises(DataError, match=r"photo: .* is damaged \(indices must be (>= 0|< \d+)\)"):
        load("photo", data_dir=tmp_path)


def test_dgls_processed_caches_are_not_read(tmp_path, bomb):
    raw = write_citation(tmp_path / "cora_v2_d697a464", "cora_v2")
    whole = load("cora", data_dir=tmp_path)
    plant_processed_cache(raw, "cora_v2", bomb)
    same_data(load("cora", data_dir=tmp_path), whole)
    assert not bomb.went_off


def test_a_data_set_knows_its_files_and_refuses_others(tmp_path):
    raw = write_citation(tmp_path / "cora_v2_d697a464", "cora_v2")
    origin = load("cora", data_dir=tmp_path).origin
    assert origin.path == str(raw)
    same_data(load("cora", data_dir=tmp_path, sha256=origin.sha256), load("cora", data_dir=tmp_path))
    (raw / "ind.cora_v2.graph").write_bytes((raw / "ind.cora_v2.graph").read_bytes() + b" ")
    with pytest.raises(DataError, match="holds other data than were asked for"):
        load("cora", data_dir=tmp_path, sha256=origin.sha256)


def test_an_npz_file_has_the_hash_that_sha256sum_prints(tmp_path):
    file = tmp_path / "mine.npz"
    np.savez(file, edge_index=np.array([[0, 2], [1, 3]]), feat=np.eye(8), label=np.arange(8) % 2)
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    assert load(file).origin == Origin(str(file), sha256)
    with pytest.raises(DataError, match=f"{sha256}, expected 0000"):
        load(file, sha256="0" * 64)


def raw_folder():
    """Where DGL's raw files are."""
    root = Path(os.environ.get("HGEO_DATA", "nowhere"))
    return root / "dgl" if (root / "dgl").is_dir() else root


def available(name, folder):
    there = (raw_folder() / folder).is_dir()
    return pytest.param(
        name, marks=[pytest.mark.data, pytest.mark.skipif(not there, reason=f"HGEO_DATA holds no {folder}")]
    )


@pytest.mark.parametrize(
    "name",
    [
        available("cora", "cora_v2_d697a464"),
        available("citeseer", "citeseer_d6836239"),
        available("pubmed", "pubmed_35464cad"),
        available("photo", "amazon_co_buy_photo_b75d805d"),
    ],
)
def test_real_data_have_the_published_sizes_and_are_what_dgl_makes_of_them(name, capfd, tmp_path):
    data = load(name)
    expected = {
        "cora": (2708, 10556, 1433, 7, 140),
        "citeseer": (3327, 9104, 3703, 6, 120),
        "pubmed": (19717, 88648, 500, 3, 60),
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
    same_data(data, by_dgl(name, Path(shutil.copytree(raw_folder(), tmp_path / "copy")), split_seed=0))
