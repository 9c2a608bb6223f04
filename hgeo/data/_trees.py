r"""Trees in the hyperbolic plane, by Sarkar's construction (2011): points whose distances are known to be right.

Every edge has the length τ, and the edges at a node part at equal angles. Where two edges meet at an angle θ the way
across is shorter than 2τ by at most L = -2 log sin(θ/2), whatever τ is. So a path of m edges is longer than
mτ - (m - 1)L, and with τ = (1 - 1/m) L·D/(D - 1) for the longest path no distance is short by more than the factor D.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components, shortest_path
from torch import Tensor

from hgeo import manifolds
from hgeo._geoopt import geoopt
from hgeo.graph import as_graph

__all__ = ["TreeEmbedding", "embed_tree"]

_LARGEST_ERROR = 1e-3  # of an edge's length, by rounding


class TreeEmbedding(NamedTuple):
    """Points (N, n), float64, and the length of an edge: distances of points over it are distances in the tree."""

    points: Tensor
    edge_length: float


def embed_tree(
    tree: Any, manifold: geoopt.Manifold | None = None, *, num_nodes: int | None = None, distortion: float = 1.1
) -> TreeEmbedding:
    r"""Embeds a tree into a hyperbolic plane such that its distances are kept up to a factor.

    .. math:: d_T(i, j) / D \le d(x_i, x_j) / \tau \le d_T(i, j)

    with d_T the number of edges between two nodes, τ the returned edge length and D the distortion asked for. A node of
    the tree's centre is at the origin. It is a ground truth for embeddings that are learned, and a way to start them.

    Args:
        tree: a tree in any graph format; a direction or both of an edge. (Of a networkx graph:
            ``networkx.to_scipy_sparse_array(graph)``.)
        manifold: a hyperbolic space, ``hgeo.PoincareBall()`` unless it is given.
        num_nodes: the number of nodes, needed with an ``edge_index`` of a tree of one node only.
        distortion: D > 1. The nearer it is to 1, the longer the edges, the sooner the tree is too deep.

    Raises:
        ValueError: the graph is no tree, or it is too deep. float64 has digits enough for some distance from the origin
            (about 29/√c on ball and hyperboloid), and a tree of height h reaches h·τ.

    >>> import torch, hgeo
    >>> star = torch.tensor([[0, 0, 0], [1, 2, 3]])
    >>> points, edge_length = hgeo.embed_tree(star, distortion=1.2)
    >>> hgeo.cdist(hgeo.PoincareBall(), points, points)[1] / edge_length  # 1 2 2 to the other nodes, 0 to itself
    tensor([1.0000, 0.0000, 1.8346, 1.8346], dtype=torch.float64)
    """
    manifold = manifolds.PoincareBall() if manifold is None else manifold
    root_c = math.sqrt(_minus_curvature(manifold))
    if not distortion > 1 or not math.isfinite(distortion):
        raise ValueError(f"embed_tree: the distortion must be a number greater than 1, got {distortion}")
    adjacency = _adjacency(tree, num_nodes)
    order, parents, longest = _from_the_centre(adjacency)
    degrees = np.diff(adjacency.indptr)
    length, loss = _edge_length(int(degrees.max(initial=1)), longest, distortion)
    radius, angle = _polar(adjacency, order, parents, length)
    coordinates = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)
    scale = root_c * manifolds.frame_scale(manifold)
    points = manifolds.exp0(manifold, torch.from_numpy(coordinates / scale)).detach()
    children = order[1:]
    found = manifolds.dist(manifold, points[children], points[parents[children]]).detach() * (root_c / length)
    if not bool(((found - 1).abs() <= _LARGEST_ERROR).all()):
        raise ValueError(_too_deep((longest + 1) // 2, length, loss, distortion))
    return TreeEmbedding(points, length / root_c)


def _minus_curvature(manifold: geoopt.Manifold) -> float:
    k = manifolds.curvature(manifold)
    if k is None or not float(k.detach()) < 0:
        raise ValueError(
            "embed_tree: a tree needs a hyperbolic space (PoincareBall, Lorentz, Klein, Stereographic with k < 0, or "
            f"another whose geometry tells a negative curvature), got {manifold}"
        )
    return -float(k.detach())


def _adjacency(tree: Any, num_nodes: int | None) -> csr_array:
    """The tree's symmetric adjacency; what is no tree is refused."""
    graph = as_graph(tree, num_nodes)
    ends = torch.stack([graph.col, graph.row]).cpu().numpy()
    ends = ends[:, ends[0] != ends[1]]
    count = graph.num_src
    both = np.unique(np.concatenate([ends, ends[::-1]], axis=1), axis=1)
    adjacency = csr_array((np.ones(both.shape[1], dtype=np.int8), (both[0], both[1])), shape=(count, count))
    pieces = connected_components(adjacency, directed=False, return_labels=False) if count else 0
    if pieces != 1 or both.shape[1] != 2 * (count - 1):
        raise ValueError(
            f"embed_tree: a tree of {count} nodes is in one piece and has {max(count - 1, 0)} edges; this graph is in "
            f"{pieces} and has {both.shape[1] // 2}"
        )
    return adjacency


def _from_the_centre(adjacency: csr_array) -> tuple[np.ndarray, np.ndarray, int]:
    """The nodes in the order of their distance from a node in the middle of a longest path, the parent of each, and the
    length of that path."""

    def farthest(node: int) -> tuple[int, np.ndarray, int]:
        steps, before = shortest_path(
            adjacency, directed=False, unweighted=True, indices=node, return_predecessors=True
        )
        last = int(steps.argmax())
        return last, before, int(steps[last])

    end, before, longest = farthest(farthest(0)[0])
    for _ in range(longest // 2):
        end = int(before[end])
    order, parents = breadth_first_order(adjacency, end, directed=False)
    return order, parents, longest


def _edge_length(degree: int, longest: int, distortion: float) -> tuple[float, float]:
    """τ and what an edge loses, (1 - 1/m) L, at c = 1, for nodes of up to ``degree`` neighbours and paths of up to m =
    ``longest`` edges.

    Seen from a node, what a path came from lies beside its last edge by an angle δ with tan(δ/2)·tan(α/2) ≤ e^(-τ),
    where α is the angle that the path before made in the same sense. So paths keep an angle α < θ = 2π/degree if τ is
    so long that tan((θ - α)/2)·tan(α/2) ≥ e^(-τ); the α that asks for the shortest edges is taken.
    """
    widest = 2 * math.pi / max(degree, 2)
    angle = widest * np.linspace(0, 1, 2001)[1:-1]
    loss = -2 * np.log(np.sin(angle / 2)) * (1 - 1 / max(longest, 1))
    turned = -np.log(np.tan(angle / 2) * np.tan((widest - angle) / 2))
    length = np.maximum(np.maximum(loss * (distortion / (distortion - 1)), turned), 1.0)
    best = int(length.argmin())
    return float(length[best]), float(loss[best])


def _polar(
    adjacency: csr_array, order: np.ndarray, parents: np.ndarray, length: float
) -> tuple[np.ndarray, np.ndarray]:
    """Distance from the origin and angle there of each node, at c = 1."""
    count = len(order)
    radius, angle, back = np.zeros(count), np.zeros(count), np.zeros(count)
    sinh, cosh = math.sinh(length), math.cosh(length)
    for node in order:  # parents come before their children
        neighbours = adjacency.indices[adjacency.indptr[node] : adjacency.indptr[node + 1]]
        children = neighbours[neighbours != parents[node]]
        share = 2 * math.pi / max(len(neighbours), 1)
        if node == order[0]:
            radius[children], angle[children], back[children] = length, share * np.arange(len(children)), math.pi
            continue
        # The triangle of origin, node and child; ``turn`` is the child's direction from the outward one.
        turn = back[node] + share * (1 + np.arange(len(children)))
        sinh_r, cosh_r, across, along = math.sinh(radius[node]), math.cosh(radius[node]), np.sin(turn), np.cos(turn)
        radius[children] = np.arccosh(cosh_r * cosh + sinh_r * sinh * along)
        angle[children] = angle[node] + np.arctan2(sinh * across, cosh * sinh_r + sinh * cosh_r * along)
        back[children] = math.pi + np.arctan2(sinh_r * across, cosh_r * sinh + sinh_r * cosh * along)
    return radius, np.remainder(angle + math.pi, 2 * math.pi) - math.pi


def _too_deep(height: int, length: float, loss: float, distortion: float) -> str:
    reach = math.log(_LARGEST_ERROR / np.finfo(np.float64).eps)
    room = reach / height
    if room > max(loss, 1.0):
        advice = f"a distortion of {math.ceil(100 * room / (room - loss)) / 100:g} fits on the ball"
    else:
        advice = f"no tree whose nodes have so many neighbours fits with a height over {int(reach / max(loss, 1.0))}"
    return (
        f"embed_tree: the tree is too deep: a height of {height} with edges of {length:.3g} (which a distortion of "
        f"{distortion:g} needs) reaches {height * length:.3g} from the origin in units of 1/√c, and float64 tells "
        f"points apart up to about {reach:.2g} on ball and hyperboloid, half of it on Klein's ball; {advice}"
    )
