"""Graphs and points that the tests of the graph room share."""

import pytest
import torch

from hgeo.graph import Graph

CASES = ("symmetric", "directed", "block", "no loops", "parallel edges", "isolated", "no edges")


def make_graph(case: str) -> Graph:
    generator = torch.Generator().manual_seed(sum(map(ord, case)))

    def ids(high: int, count: int) -> torch.Tensor:
        return torch.randint(0, high, (count,), generator=generator)

    if case == "symmetric":
        src, dst = ids(12, 30), ids(12, 30)
        return Graph(torch.cat([src, dst]), torch.cat([dst, src]), num_src=12).with_self_loops()
    if case == "directed":
        return Graph(ids(12, 50), ids(12, 50), num_src=12).with_self_loops()
    if case == "block":
        return Graph(ids(12, 40), ids(5, 40), num_src=12, num_dst=5).with_self_loops()
    if case == "no loops":
        return Graph(ids(6, 40), 6 + ids(6, 40), num_src=12)
    if case == "parallel edges":
        return Graph(ids(4, 60), ids(4, 60), num_src=12).with_self_loops()
    if case == "isolated":
        return Graph(ids(5, 20), ids(5, 20), num_src=12)
    return Graph(ids(1, 0), ids(1, 0), num_src=12)


@pytest.fixture(params=CASES)
def graph(request) -> Graph:
    return make_graph(request.param)
