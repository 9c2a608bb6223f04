"""A user's own data come in canonical form, or with an error that names the array, the shape and the row."""

import numpy as np
import pytest
import scipy.sparse
import torch

from hgeo.data import DataError, DataWarning, from_dgl, from_npz, from_pyg, load, make_dataset


def arrays(nodes=40, **changes):
    generator = np.random.default_rng(0)
    content = {
        "edge_index": generator.integers(nodes, size=(2, 3 * nodes)),
        "feat": generator.normal(size=(nodes, 5)).astype(np.float32),
        "label": np.arange(nodes) % 4,
    }
    content.update(changes)
    return {key: value for key, value in content.items() if value is not None}


@pytest.fixture
def saved(tmp_path):
    def save(**changes):
        path = tmp_path / "mine.npz"
        np.savez(path, **arrays(**changes))
        return path

    return save


def test_edges_become_symmetric_without_loops_and_duplicates(saved):
    data = from_npz(saved(edge_index=np.array([[0, 0, 1, 2, 2], [1, 1, 0, 2, 3]])))
    assert set(map(tuple, data.edge_index.T.tolist())) == {(0, 1), (1, 0), (2, 3), (3, 2)}
    assert data.num_edges == 4
    assert (data.edge_index[1].diff() >= 0).all()


def test_the_split_is_decided_by_its_seed_and_disjoint(saved):
    path = saved(nodes=200)
    first, again, other = load(path), load(path), load(path, split_seed=1)
    for part in ("train_idx", "val_idx", "test_idx"):
        assert torch.equal(getattr(first, part), getattr(again, part))
    assert not torch.equal(first.train_idx, other.train_idx)
    together = torch.cat([first.train_idx, first.val_idx, first.test_idx])
    assert len(together.unique()) == len(together)
    assert torch.bincount(first.labels[first.train_idx]).tolist() == [20, 20, 20, 20]


def test_masks_are_obeyed(saved):
    masks = {f"{part}_mask": np.arange(40) % 3 == number for number, part in enumerate(("train", "val", "test"))}
    data = from_npz(saved(**masks))
    assert data.train_idx.tolist() == list(range(0, 40, 3))
    assert data.test_idx.tolist() == list(range(2, 40, 3))


def test_unlabelled_nodes_are_in_no_set(saved):
    label = np.arange(40) % 4
    label[:10] = -1
    data = from_npz(saved(label=label))
    assert data.num_classes == 4
    assert min(int(index.min()) for index in (data.train_idx, data.val_idx, data.test_idx)) >= 10


def test_counts_of_words_stay_sparse_with_equal_sums_and_a_mean_length_of_one_half(saved):
    counts = (np.random.default_rng(1).random((40, 30)) < 0.1).astype(np.float32) * 3
    data = from_npz(saved(feat=counts))
    assert data.is_sparse
    total = data.features.to_dense().sum(dim=1)
    filled = torch.from_numpy(counts.sum(1) > 0)
    assert torch.allclose(total[filled], total[filled].mean())
    assert (total[~filled] == 0).all()
    assert data.features.to_dense().norm(dim=1).mean().item() == pytest.approx(0.5, rel=1e-5)


def test_features_normalised_by_rows_sum_to_one(saved):
    counts = (np.random.default_rng(1).random((40, 30)) < 0.1).astype(np.float32) * 3
    total = from_npz(saved(feat=counts), normalize="rows").features.to_dense().sum(dim=1)
    assert torch.allclose(total[torch.from_numpy(counts.sum(1) > 0)], torch.ones(()))


def test_sparse_arrays_in_the_file_give_the_same_features_as_dense_ones(saved):
    counts = (np.random.default_rng(1).random((40, 30)) < 0.1).astype(np.float32)
    matrix = scipy.sparse.csr_matrix(counts)
    parts = {"feat_data": matrix.data, "feat_indices": matrix.indices, "feat_indptr": matrix.indptr}
    dense = from_npz(saved(feat=counts)).features.to_dense()
    sparse = from_npz(saved(feat=None, feat_shape=np.array(matrix.shape), **parts)).features.to_dense()
    assert torch.equal(dense, sparse)


def test_dense_features_are_standardised_to_rows_of_about_unit_length(saved):
    wild = np.random.default_rng(2).normal(loc=1e3, scale=50.0, size=(40, 5))
    wild[:, 4] = 7.0
    data = from_npz(saved(feat=wild))
    assert data.features.norm(dim=1).square().mean().item() == pytest.approx(0.8, rel=1e-3)  # 4 of 5 columns vary
    assert data.features[:, 4].abs().max() == 0


def test_normalisation_can_be_switched_off(saved):
    path = saved()
    assert torch.equal(from_npz(path, normalize="none").features, torch.from_numpy(arrays()["feat"]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edge_index": np.zeros((7, 2), int)}, r"edge_index has shape \(7, 2\).*transpose"),
        ({"edge_index": np.array([[0, 3], [1, 99]])}, r"edge_index column 1 is \(3, 99\), expected node ids 0 … 39"),
        ({"edge_index": np.zeros((2, 3))}, r"edge_index has dtype float64"),
        ({"feat": np.zeros((39, 5))}, r"feat has 39 rows but label has 40"),
        ({"feat": np.zeros(40)}, r"feat has shape \(40,\)"),
        ({"feat": np.where(np.arange(200).reshape(40, 5) == 17, np.nan, 1.0)}, r"feat row 3, column 2 is nan"),
        ({"label": np.zeros((40, 3), int)}, r"label has shape \(40, 3\)"),
        ({"label": np.where(np.arange(40) == 6, 0.5, 1.0)}, r"label row 6 is 0.5"),
        ({"label": np.where(np.arange(40) == 9, -2, 1)}, r"label row 9 is -2"),
        ({"label": np.zeros(40, int)}, r"1 class"),
        ({"label": np.array(["a", "b"] * 20)}, r"label has dtype"),
        ({"feat": None}, r"has no feat; it holds edge_index, label"),
        ({"train_mask": np.ones(40, bool)}, r"val_mask, test_mask missing"),
    ],
)
def test_a_wrong_array_is_named_with_its_shape_or_row(saved, changes, message):
    with pytest.raises(DataError, match=message):
        from_npz(saved(**changes))


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (np.ones(39, bool), r"train_mask has length 39, expected 40"),
        (np.arange(40) == 1, r"val_mask row 1 is in train_mask, too"),
        (np.zeros(40, bool), r"train_mask chooses no node"),
        (np.array([3, 77]), r"train_mask holds node 77"),
        (np.ones((40, 2), bool), r"train_mask has shape \(40, 2\)"),
        (np.arange(40) % 4 == 3, r"train_mask chooses nodes of class 3 only, expected at least 2 of the 4 classes"),
        (np.array([4]), r"train_mask chooses nodes of class 0 only, .*leave out all masks"),
    ],
)
def test_a_wrong_mask_is_named(saved, train, message):
    with pytest.raises(DataError, match=message):
        from_npz(saved(train_mask=train, val_mask=np.arange(40) == 1, test_mask=np.arange(40) == 2))


def test_data_with_one_training_class_are_refused_in_every_format():
    dgl = pytest.importorskip("dgl")
    pyg = pytest.importorskip("torch_geometric.data")
    content = {key: torch.from_numpy(array) for key, array in arrays(label=np.arange(40) % 2 * 5).items()}
    masks = {
        f"{part}_mask": torch.arange(40) // 2 % 3 == number for number, part in enumerate(("train", "val", "test"))
    }
    masks["train_mask"] &= content["label"] == 5
    graph = dgl.graph(tuple(content["edge_index"]), num_nodes=40)
    graph.ndata.update({"feat": content["feat"], "label": content["label"], **masks})
    other = pyg.Data(x=content["feat"], y=content["label"], edge_index=content["edge_index"], **masks)
    for read, name, data in ((from_dgl, "label", graph), (from_pyg, "y", other)):
        with (
            pytest.warns(DataWarning, match="has gaps"),
            pytest.raises(DataError, match=f"chooses nodes of class 5 only, .*2 classes that {name} names"),
        ):
            read(data)


def test_classes_that_no_node_has_do_not_count():
    with pytest.raises(DataError, match=r"n: label names 1 class\(es\), classification needs at least 2"):
        make_dataset("n", np.zeros((2, 0), int), np.eye(8), np.zeros(8, int), num_classes=4)


def test_a_wrong_sparse_part_is_named_with_its_row(saved):
    parts = {"feat_data": np.ones(2), "feat_indptr": np.array([0, 1, *[2] * 39]), "feat_shape": np.array([40, 3])}
    with pytest.raises(DataError, match=r"feat_indices of row 1 holds 5, expected 0 … 2"):
        from_npz(saved(feat=None, feat_indices=np.array([0, 5]), **parts))


def test_a_file_that_is_no_npz_or_not_there_says_so(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.npz"):
        load(tmp_path / "nothing.npz")
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 but then nonsense")
    with pytest.raises(DataError, match=r"not an \.npz file"):
        load(tmp_path / "bad.npz")
    np.savez(tmp_path / "objects.npz", edge_index=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError, match="has no label, feat"):
        load(tmp_path / "objects.npz")


def test_an_unknown_name_suggests_a_near_one():
    with pytest.raises(DataError, match="did you mean 'pubmed'"):
        load("pubmd")


def test_dgl_and_pyg_objects_and_the_file_give_the_same_data(saved):
    dgl = pytest.importorskip("dgl")
    pyg = pytest.importorskip("torch_geometric.data")
    content = arrays()
    graph = dgl.graph((content["edge_index"][0], content["edge_index"][1]), num_nodes=40)
    graph.ndata["feat"], graph.ndata["label"] = torch.from_numpy(content["feat"]), torch.from_numpy(content["label"])
    other = pyg.Data(
        x=torch.from_numpy(content["feat"]),
        y=torch.from_numpy(content["label"]),
        edge_index=torch.from_numpy(content["edge_index"]),
    )
    expected = from_npz(saved())
    for data in (from_dgl(graph), from_pyg(other)):
        for field in ("edge_index", "features", "labels", "train_idx", "val_idx", "test_idx"):
            assert torch.equal(getattr(data, field), getattr(expected, field)), field


def test_a_heterogeneous_dgl_graph_is_refused():
    dgl = pytest.importorskip("dgl")
    graph = dgl.heterograph({("a", "to", "b"): ([0], [0])})
    with pytest.raises(DataError, match="node types"):
        from_dgl(graph)


def test_dgl_view_keeps_edges_features_and_masks(saved):
    pytest.importorskip("dgl")
    data = from_npz(saved())
    graph = data.dgl()
    assert torch.equal(torch.stack(graph.edges()), data.edge_index)
    assert torch.equal(graph.ndata["train_mask"].nonzero().flatten(), data.train_idx)


def test_the_hgeo_graph_has_the_edges_of_edge_index(saved):
    data = from_npz(saved())
    assert data.graph.num_edges == data.num_edges
    assert torch.equal(torch.stack([data.graph.col, data.graph.row]), data.edge_index)


def test_to_moves_the_dtype_of_sparse_and_dense_features(saved):
    assert from_npz(saved()).to(dtype=torch.float64).features.dtype == torch.float64
    sparse = load("karate").to(dtype=torch.float64)
    assert sparse.is_sparse
    assert sparse.features.dtype == torch.float64


def test_a_graph_without_edges_is_a_data_set():
    data = make_dataset("points", np.zeros((2, 0), dtype=int), np.eye(8), np.arange(8) % 2)
    assert data.num_edges == 0


@pytest.mark.parametrize("feat", [np.ones((8, 3)), np.zeros((8, 2)), scipy.sparse.csr_matrix((8, 5))])
def test_features_that_are_the_same_for_every_node_are_replaced_with_a_warning(feat):
    with pytest.warns(DataWarning, match="points: feat is the same in every row"):
        data = make_dataset("points", np.zeros((2, 0), dtype=int), feat, np.arange(8) % 2)
    assert torch.equal(data.features.to_dense() != 0, torch.eye(8, dtype=torch.bool))


@pytest.mark.parametrize("change", [lambda x: x + 1e8, lambda x: x * 1e30, lambda x: x * 1e300, lambda x: x * 1e-300])
def test_shifting_and_scaling_the_features_changes_nothing(recwarn, change):
    feat = np.random.default_rng(0).normal(size=(40, 5))
    expected = make_dataset("near", np.zeros((2, 0), int), feat, np.arange(40) % 2).features
    data = make_dataset("far", np.zeros((2, 0), int), change(feat), np.arange(40) % 2)
    torch.testing.assert_close(data.features, expected, rtol=1e-5, atol=1e-6)
    assert not recwarn.list


def test_single_precision_features_may_be_large_too():
    feat = (np.random.default_rng(0).normal(size=(40, 5)) * 1e30).astype(np.float32)
    assert make_dataset("far", np.zeros((2, 0), int), feat, np.arange(40) % 2).features.std() > 0.3


def test_times_in_seconds_keep_their_order():
    times = 1_700_000_000 + np.random.default_rng(0).permutation(40)
    data = make_dataset("log", np.zeros((2, 0), int), times[:, None], np.arange(40) % 2)
    assert torch.equal(data.features[:, 0].argsort(), torch.from_numpy(times.argsort()))
    steps = data.features[:, 0].sort().values.diff()
    torch.testing.assert_close(steps, steps[:1].expand(39), rtol=1e-4, atol=0)


def test_counts_too_large_for_single_precision_are_scaled_like_others():
    counts = (np.random.default_rng(1).random((40, 30)) < 0.1) * 1.0
    small, large = (make_dataset("n", np.zeros((2, 0), int), c, np.arange(40) % 2) for c in (counts, counts * 1e308))
    torch.testing.assert_close(small.features.to_dense(), large.features.to_dense())
    with pytest.raises(DataError, match=r"n: feat holds 1e\+308, too large for float32"):
        make_dataset("n", np.zeros((2, 0), int), counts * 1e308, np.arange(40) % 2, normalize="none")


def test_a_sparse_matrix_of_the_caller_is_left_alone():
    matrix = scipy.sparse.csr_matrix((np.ones(3, np.int8) * 100, [0, 0, 1], [0, 2, *[3] * 39]), shape=(40, 2))
    data = make_dataset("n", np.zeros((2, 0), int), matrix, np.arange(40) % 2, normalize="none")
    assert data.features.to_dense()[0, 0] == 200
    assert matrix.nnz == 3


def test_labels_with_gaps_are_numbered_anew_with_the_mapping_in_a_warning(saved):
    label = np.array([20, 0, 10, -1] * 10)
    with pytest.warns(DataWarning, match=r"mine\.npz: label has gaps: .*\(0 → 0, 10 → 1, 20 → 2\)"):
        data = from_npz(saved(label=label))
    assert data.labels[:4].tolist() == [2, 0, 1, -1]
    assert (data.num_classes, data.label_values) == (3, (0, 10, 20))
    assert from_npz(saved()).label_values is None


def test_one_huge_label_costs_nothing(saved):
    with pytest.warns(DataWarning, match="1000000 → 4"):
        assert from_npz(saved(label=np.where(np.arange(40) == 3, 10**6, np.arange(40) % 4))).num_classes == 5
    with pytest.raises(DataError, match=r"label row 3 is 1e\+300"):
        from_npz(saved(label=np.where(np.arange(40) == 3, 1e300, np.arange(40) % 4)))


def test_a_given_number_of_classes_keeps_a_class_without_nodes():
    none = np.zeros((2, 0), int)
    data = make_dataset("n", none, np.eye(8), np.arange(8) % 2 * 2, num_classes=4)
    assert (data.num_classes, data.label_values, int(data.labels.max())) == (4, None, 2)
    with pytest.raises(DataError, match="label row 1 is 2, expected less than num_classes = 2"):
        make_dataset("n", none, np.eye(8), np.arange(8) % 2 * 2, num_classes=2)


CSR = {
    "feat": None,
    "feat_data": np.ones(2),
    "feat_indices": np.array([0, 1]),
    "feat_indptr": np.array([0, 1, *[2] * 39]),
    "feat_shape": np.array([40, 3]),
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({**CSR, "feat_data": np.array(["a", "b"])}, "feat_data has dtype <U1, expected real numbers"),
        ({**CSR, "feat_data": np.ones(2, complex)}, "feat_data has dtype complex128, expected real numbers"),
        ({**CSR, "feat_indptr": np.array([0, 2, 1, *[2] * 38], np.uint32)}, "feat_indptr row 1 is wrong"),
        ({**CSR, "feat_shape": np.array([40, -1])}, r"feat_shape is \[40, -1\], expected two numbers from 1 on"),
        ({"label": np.array([{}] * 40)}, "label holds Python objects, expected a plain array of numbers"),
        ({"feat": np.array(scipy.sparse.identity(40))}, "feat holds Python objects.*feat_data=m.data, feat_indices"),
        ({"feat": np.zeros((39, 5))}, "feat has 39 rows"),
        ({"edge_index": np.array([[0], [99]])}, "edge_index column 0"),
        ({"train_mask": np.ones(40, bool)}, "val_mask, test_mask missing"),
    ],
)
def test_every_message_begins_with_the_path_and_names_the_array(saved, changes, message):
    path = saved(**changes)
    with pytest.raises(DataError, match=message) as caught:
        from_npz(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_arrays_that_are_not_needed_are_not_read(saved):
    assert from_npz(saved(notes=np.array([{"made by": "me"}]))).num_nodes == 40


def test_a_file_of_another_kind_is_told_apart(tmp_path):
    np.save(tmp_path / "one.npy", np.ones(3))
    with pytest.raises(DataError, match=r"one\.npy holds a single array \(\.npy\); expected what numpy\.savez writes"):
        load(tmp_path / "one.npy")
    for text in ("node,label\n0,1\n", ""):
        (tmp_path / "list.csv").write_text(text)
        with pytest.raises(DataError, match=r"list\.csv is not an \.npz file") as caught:
            load(tmp_path / "list.csv")
        assert "pickle" not in str(caught.value)


def test_a_graph_object_is_sent_to_its_reader():
    dgl = pytest.importorskip("dgl")
    pyg = pytest.importorskip("torch_geometric.data")
    with pytest.raises(TypeError, match=r"hgeo\.data\.from_dgl reads a DGLGraph"):
        load(dgl.graph(([0], [1])))
    with pytest.raises(TypeError, match=r"hgeo\.data\.from_pyg reads a Data"):
        load(pyg.Data())


def test_an_unknown_name_gets_an_error_that_lists_the_known_names():
    with pytest.raises(DataError, match=r"no data set 'zzz'\. Known: hierarchy, karate"):
        load("zzz")
    with pytest.raises(DataError, match=r"the split seed is -1, expected 0 or more"):
        load("karate", split_seed=-1)


def test_a_data_set_has_its_own_copy_of_the_features():
    features = np.eye(6, dtype=np.float32) + np.arange(6, dtype=np.float32)
    data = make_dataset(
        "mine", np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]]), features, np.arange(6) % 2, normalize="none"
    )
    data.features[0, 0] = 99.0
    assert features[0, 0] == 1.0


def test_a_small_file_that_would_unpack_to_a_large_one_is_refused(tmp_path, monkeypatch):
    """Fourteen megabytes can hold three gigabytes of zeros."""
    monkeypatch.setattr("hgeo.data._archive._LARGE", 1 << 20)
    links = np.array([np.arange(40), (np.arange(40) + 1) % 40])
    arrays = {"edge_index": links, "label": np.arange(40) % 2}
    np.savez_compressed(tmp_path / "bomb.npz", feat=np.zeros((40, 100_000)), **arrays)
    with pytest.raises(DataError, match=r"bomb\.npz would unpack 0 MB to 0\.0 GB; .* save it with numpy\.savez"):
        load(tmp_path / "bomb.npz")
    np.savez(tmp_path / "plain.npz", feat=np.random.default_rng(0).random((40, 10_000)), **arrays)
    assert load(tmp_path / "plain.npz").num_features == 10_000


def test_more_features_than_any_model_takes_are_refused(tmp_path):
    links = np.array([np.arange(40), (np.arange(40) + 1) % 40])
    csr = {"feat_data": np.ones(40), "feat_indices": np.arange(40), "feat_indptr": np.arange(41)}
    np.savez(tmp_path / "x.npz", edge_index=links, label=np.arange(40) % 2, feat_shape=np.array([40, 2**31]), **csr)
    with pytest.raises(DataError, match="feat_shape says 2147483648 features, expected at most 16777216"):
        load(tmp_path / "x.npz")
