"""The shape of a graph: trees have no hyperbolicity, cycles and grids have."""

import numpy as np
import pytest
import torch

from hgeo.data import hierarchy, karate, make_dataset
from hgeo.tasks import graph_statistics, hyperbolicity


def cycle(length):
    nodes = torch.arange(length)
    return torch.stack([nodes, (nodes + 1) % length])


def brute_force_delta(edge_index, nodes):
    import itertools

    distance = np.full((nodes, nodes), np.inf)
    np.fill_diagonal(distance, 0)
    for a, b in edge_index.T.tolist():
        distance[a, b] = distance[b, a] = 1
    for k in range(nodes):
        distance = np.minimum(distance, distance[:, k : k + 1] + distance[k : k + 1])
    deltas = []
    for a, b, c, d in itertools.combinations(range(nodes), 4):
        sums = sorted(
            [distance[a, b] + distance[c, d], distance[a, c] + distance[b, d], distance[a, d] + distance[b, c]]
        )
        deltas.append((sums[2] - sums[1]) / 2)
    return float(np.mean(deltas)), max(deltas)


@pytest.mark.parametrize("length", [4, 5, 8, 13])
def test_a_cycle_has_the_delta_that_all_its_quadruples_give(length):
    mean, largest = brute_force_delta(cycle(length), length)
    found = hyperbolicity(cycle(length), length, samples=20000)
    assert found["max"] == largest
    assert found["mean"] == pytest.approx(mean, abs=0.05)


def test_the_karate_club_agrees_with_all_its_quadruples():
    club = karate()
    mean, largest = brute_force_delta(club.edge_index, 34)
    found = hyperbolicity(club.edge_index, 34, samples=40000)
    assert found["max"] == largest
    assert found["mean"] == pytest.approx(mean, abs=0.01)


def test_the_seed_fixes_the_sample():
    data = hierarchy()
    once, again = (hyperbolicity(data.edge_index, data.num_nodes, samples=500, seed=3) for _ in range(2))
    assert once == again


def test_only_the_largest_component_is_measured():
    edges = torch.cat([cycle(5), torch.tensor([[7, 8, 9, 10, 11, 12], [8, 9, 10, 11, 12, 13]])], dim=1)
    assert hyperbolicity(edges, 20)["max"] == 0.0  # the path of seven, not the cycle of five


def test_degrees_components_and_homophily_are_counted():
    edges = np.array([[0, 1, 2, 3], [1, 2, 3, 4]])
    data = make_dataset("path", edges, np.eye(8), np.array([0, 0, 0, 1, 1, 1, 0, 1]))
    found = graph_statistics(data)
    assert (found.components, found.largest_component, found.isolated) == (4, 5, 3)
    assert found.degree_max == 2
    assert found.degree_mean == 1.0
    assert found.homophily == 0.75
    assert found.diameter_at_least == 4
    assert "tree-like" in found.advice()


def test_equal_degrees_have_gini_zero():
    data = make_dataset("ring", cycle(12).numpy(), np.eye(12), np.arange(12) % 2)
    assert graph_statistics(data).degree_gini == pytest.approx(0.0)


def test_a_graph_without_edges_has_statistics_too():
    data = make_dataset("dust", np.zeros((2, 0), dtype=int), np.eye(8), np.arange(8) % 2)
    found = graph_statistics(data)
    assert found.isolated == 8
    assert "says nothing" in found.advice()


def described(graph):
    import networkx

    graph = networkx.convert_node_labels_to_integers(graph)
    edges, nodes = np.array(list(graph.edges())).T, graph.number_of_nodes()
    data = make_dataset("graph", edges, np.random.default_rng(0).normal(size=(nodes, 2)), np.arange(nodes) % 2)
    return graph_statistics(data, samples=5000).advice()


def with_links(graph, share, seed):
    generator = np.random.default_rng(seed)
    nodes = graph.number_of_nodes()
    graph.add_edges_from(generator.integers(nodes, size=(round(share * nodes), 2)).tolist())
    return graph


@pytest.mark.parametrize("seed", [0, 1])
def test_lattices_rings_and_random_graphs_are_not_tree_like(seed):
    import networkx as nx

    blocks = (np.full((50, 50), 0.01) + 0.49 * np.eye(50)).tolist()
    loose = (np.full((5, 5), 0.002) + 0.03 * np.eye(5)).tolist()
    for graph in (
        nx.grid_2d_graph(40, 40),
        nx.grid_2d_graph(25, 25, periodic=True),
        nx.triangular_lattice_graph(20, 30),
        nx.cycle_graph(300),
        nx.stochastic_block_model([20] * 50, blocks, seed=seed),
        nx.stochastic_block_model([200] * 5, loose, seed=seed),
        nx.fast_gnp_random_graph(1000, 0.004, seed=seed),
        nx.random_regular_graph(3, 800, seed=seed),
        nx.barabasi_albert_graph(1000, 5, seed=seed),
    ):
        assert described(graph).startswith("Not tree-like"), graph


@pytest.mark.parametrize("seed", [0, 1])
def test_trees_are_tree_like_and_stay_so_with_a_few_links(seed):
    import networkx as nx

    for tree in (nx.balanced_tree(2, 9), nx.barabasi_albert_graph(800, 1, seed=seed), nx.star_graph(50)):
        assert described(tree).startswith("Very tree-like"), tree
        if tree.number_of_nodes() > 100:
            assert "tree-like" in described(with_links(tree, 0.03, seed))
            assert not described(tree).startswith("Not"), tree


def test_a_complete_graph_says_nothing_about_trees():
    import networkx as nx

    assert "says nothing" in described(nx.complete_graph(20))


@pytest.mark.data
@pytest.mark.parametrize("name", ["cora", "citeseer", "photo"])
def test_graphs_of_citations_and_purchases_are_moderately_tree_like(name):
    from hgeo.data import available, load

    if name not in available()[1]:
        pytest.skip(f"HGEO_DATA holds no {name}")
    assert graph_statistics(load(name), samples=5000).advice().startswith("Moderately tree-like")
