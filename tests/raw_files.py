"""Small files in the layout of DGL's raw ones and HGCN's, what DGL makes of them, and pickles that run code."""

import pickle
from collections import defaultdict
from pathlib import Path

import numpy as np
import scipy.sparse
import torch

from hgeo._dgl import import_dgl
from hgeo.data import make_dataset

FOLDERS = {
    "cora": "cora_v2_d697a464",
    "citeseer": "citeseer_d6836239",
    "pubmed": "pubmed_35464cad",
    "photo": "amazon_co_buy_photo_b75d805d",
    "computers": "amazon_co_buy_computer_b5999b2e",
    "cs": "coauthor_cs_10782e7c",
    "physics": "coauthor_physics_310c1038",
}
LOADERS = {
    "cora": "CoraGraphDataset",
    "citeseer": "CiteseerGraphDataset",
    "pubmed": "PubmedGraphDataset",
    "photo": "AmazonCoBuyPhotoDataset",
    "computers": "AmazonCoBuyComputerDataset",
    "cs": "CoauthorCSDataset",
    "physics": "CoauthorPhysicsDataset",
}
TAUGHT, OTHERS, TESTED = 12, 520, 40  # 500 of the others are for validation


def words(generator, rows, dtype):
    """Bags of words, some empty, their columns in no order: only whether a word is there, or weights if float64."""
    found = scipy.sparse.random(rows, 30, density=0.1, random_state=generator, format="csr", dtype=dtype)
    if dtype == "f4":
        found.data[:] = 1
    for row in range(rows):
        part = slice(found.indptr[row], found.indptr[row + 1])
        shuffle = generator.permutation(part.stop - part.start)
        found.data[part], found.indices[part] = found.data[part][shuffle], found.indices[part][shuffle]
    found.has_sorted_indices = False
    return found


def write_citation(folder: Path, name: str, *, dtype: str = "f4", without_row: int = 0) -> Path:
    """The eight files ``ind.NAME.*`` of a random graph; ``without_row`` test nodes are in the graph only."""
    generator = np.random.default_rng(0)
    folder.mkdir(parents=True)
    count = TAUGHT + OTHERS + TESTED + without_row
    test = generator.permutation(np.arange(TAUGHT + OTHERS, count))
    hole = (test == TAUGHT + OTHERS) | (test == count - 1)  # the first and the last have rows
    test = np.concatenate([test[hole], test[~hole][: TESTED - 2]])
    features, tested = words(generator, TAUGHT + OTHERS, dtype), words(generator, TESTED, dtype)
    one_hot = np.eye(3, dtype=np.int32)[np.arange(TAUGHT + OTHERS + TESTED) % 3]
    graph = defaultdict(list)
    for node in range(count):
        graph[node] += [int(other) for other in generator.integers(count, size=3)]
    parts = {
        "x": features[:TAUGHT],
        "y": one_hot[:TAUGHT],
        "allx": features,
        "ally": one_hot[: TAUGHT + OTHERS],
        "tx": tested,
        "ty": one_hot[TAUGHT + OTHERS :],
        "graph": graph,
    }
    for part, content in parts.items():
        (folder / f"ind.{name}.{part}").write_bytes(pickle.dumps(content, protocol=3))
    (folder / f"ind.{name}.test.index").write_text("".join(f"{node}\n" for node in test))
    return folder


def write_benchmark(file: Path) -> Path:
    """A file of Shchur et al.'s benchmark: links in one direction, in no order, some nodes linked to themselves."""
    generator = np.random.default_rng(0)
    file.parent.mkdir(parents=True)
    source, destination = generator.integers(60, size=(2, 150))
    source[0] = 59  # DGL counts the nodes by the last that is linked
    links = scipy.sparse.csr_matrix((np.ones(150, np.float32), (source, destination)), shape=(60, 60))
    attributes = words(generator, 60, "f4")
    np.savez(
        file,
        **{f"adj_{part}": getattr(links, part) for part in ("data", "indices", "indptr", "shape")},
        **{f"attr_{part}": getattr(attributes, part) for part in ("data", "indices", "indptr", "shape")},
        labels=np.arange(60) % 4,
        node_names=np.array([f"node {node}" for node in range(60)], dtype=object),
    )
    return file


def write_airport(folder: Path, *, nodes: int = 60, old: bool = True) -> Path:
    """A pickled networkx graph, as HGCN's (of an old networkx, with a view of its nodes) or as of today's."""
    import networkx

    generator = np.random.default_rng(0)
    graph = networkx.Graph()
    for node in generator.permutation(nodes).tolist():
        wealth = 1.0 + generator.random() / 2
        graph.add_node(100 + node, feat=[*generator.normal(size=3).tolist(), wealth / 2, wealth])
    names = list(graph)
    graph.add_edges_from((names[one], names[other]) for one, other in generator.integers(nodes, size=(3 * nodes, 2)))
    graph.add_edge(names[0], names[0])
    folder.mkdir(parents=True)
    if old:
        state = {"node_dict_factory": dict, "graph": {}, "_node": graph._node, "_adj": graph._adj, "nodes": graph.nodes}
        content = b"\x80\x03cnetworkx.classes.graph\nGraph\n)\x81" + pickle.dumps(state, protocol=3)[2:-1] + b"b."
    else:
        content = pickle.dumps(graph, protocol=3)
    (folder / "airport.p").write_bytes(content)
    return folder


def write_disease(folder: Path, *, features: bool = True) -> Path:
    """Pairs of names a line, labels, and (if wanted) features in a sparse matrix that is dense."""
    generator = np.random.default_rng(0)
    folder.mkdir(parents=True)
    lines = [f"p{int(generator.integers(node))},p{node}" for node in range(1, 50)]
    (folder / f"{folder.name}.edges.csv").write_text("".join(f"{line}\n" for line in lines))
    np.save(folder / f"{folder.name}.labels.npy", (generator.random(50) < 0.3).astype(float))
    if features:
        scipy.sparse.save_npz(
            folder / f"{folder.name}.feats.npz", scipy.sparse.csr_matrix(generator.normal(size=(50, 4)))
        )
    return folder


def by_dgl(name: str, folder: Path, *, split_seed: int):
    """What DGL's own loader makes of the raw files; it writes its processed caches beside them."""
    graph = getattr(import_dgl("the comparison", "dgl.data"), LOADERS[name])(raw_dir=str(folder), verbose=False)[0]
    parts = {part: graph.ndata[f"{part}_mask"] for part in ("train", "val", "test") if f"{part}_mask" in graph.ndata}
    edges = np.stack([end.numpy() for end in graph.edges()])
    features, labels = graph.ndata["feat"], graph.ndata["label"]
    return make_dataset(name, edges, features, labels, masks=parts or None, split_seed=split_seed)


def same_data(one, other) -> None:
    """To the last bit, dtypes included."""
    assert (one.name, one.num_nodes, one.num_classes) == (other.name, other.num_nodes, other.num_classes)
    assert one.label_values == other.label_values
    for part in ("edge_index", "labels", "train_idx", "val_idx", "test_idx"):
        same_tensor(getattr(one, part), getattr(other, part))
    assert one.features.shape == other.features.shape
    for part in ("crow_indices", "col_indices", "values"):
        same_tensor(getattr(one.features, part)(), getattr(other.features, part)())


def same_tensor(one, other) -> None:
    assert one.dtype == other.dtype
    assert torch.equal(one, other)


class Bomb:
    """A pickle that creates the file ``path`` when it is opened by ``pickle.load``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def went_off(self) -> bool:
        return self.path.exists()

    @property
    def pickled(self) -> bytes:
        return pickle.dumps(_Reduced(self.path.touch, ()))


class _Reduced:
    """Pickles as a call of ``function``."""

    def __init__(self, function, arguments) -> None:
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def calls(function, *arguments) -> bytes:
    """A pickle that says: call ``function``."""
    return pickle.dumps(_Reduced(function, arguments))


def plant_processed_cache(folder: Path, name: str, bomb: Bomb) -> None:
    """What DGL would take for its own processed graph: a true graph, and a pickle that goes off."""
    folder.mkdir(parents=True, exist_ok=True)
    dgl = import_dgl("the plant")
    dgl.save_graphs(str(folder / f"{name}_dgl_graph.bin"), dgl.graph(([0], [1])))
    (folder / f"{name}_dgl_graph.pkl").write_bytes(bomb.pickled)
