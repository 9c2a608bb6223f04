"""A node's own part beside its neighbours' mean, on curved spaces."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from hgeo import manifolds
from hgeo.graph import Finish, weighted_sum
from hgeo.nn._edges import Edges, FillValue, GraphLayer
from hgeo.nn._layer import choice, point_parameter
from hgeo.nn._means import check_mean

__all__ = ["SAGEConv"]


class SAGEConv(GraphLayer):
    r"""GraphSAGE on any manifold with means: the neighbours' mean moves a node's own point.

    .. math::
        m_i = \mathrm{mean}_{j \in N_i}(W \otimes x_j), \qquad
        y_i = \exp_0\big(\sigma(\log_0(m_i \oplus ((W_{self} \otimes x_i) \oplus b)))\big)

    with N_i the in-neighbours of i (i itself only if the graph has that loop), the mean of a node without neighbours
    being the origin, and ⊕ as in :class:`Linear`: the isometry that carries the origin to m_i along their geodesic. A
    node's own map is what tells it from its neighbours, after Hamilton et al., "Inductive representation learning on
    large graphs" (2017). Edges with attributes f multiply their message by :math:`2\,\mathrm{sigmoid}(G f + g)`.

    Args:
        in_dim: intrinsic dimension of the input; -1: of the first input; a pair: of sources and of destinations.
        out_dim: intrinsic dimension of the output.
        manifold: where the output lies.
        in_manifold: where the input lies; None: raw features, read as tangent coordinates at the origin.
        aggregate: the mean, "midpoint" (the gyromidpoint) or "tangent" (at the origin; on every manifold).
        activation: σ, a function of tangent coordinates, or None.
        bias: "none" or "point" (a ``geoopt.ManifoldParameter``).
        input: "points" of ``in_manifold``, or "tangent": their log0, as a layer with ``output="tangent"`` gives them.
        output: "points", "tangent", or "logits", as for :class:`GCNConv`.
        edge_dim: the number of attributes of an edge, which make its gate, at first near 1.
        add_self_loops, fill_value: whether a node without a self-loop gets one, and its weight and attributes, as for
            :class:`GCNConv`; here none is added unless asked for.
        residual: add to a node's own part its input, or where the dimensions differ a linear map of it.
        self_weight: whether there is :math:`W_{self}`; without it the neighbours' mean is moved by b alone.
        backend: a name of :func:`hgeo.graph.backends`, or "auto".

    Shapes:
        - graph: whatever :func:`hgeo.graph.as_graph` reads
        - x: (num_src, ambient dimension of ``in_dim``); raw features may be sparse; or a pair of them
        - output: (num_dst, ambient dimension of ``out_dim``), or (num_dst, ``out_dim``) if it is not points

    Initialised as :class:`Linear`, the bias at the origin.

    As c → 0: σ(W_self x_i + W mean_j x_j + b), which is DGL's ``SAGEConv(…, "mean")`` in flat space.

    >>> import torch, hgeo
    >>> conv = hgeo.nn.SAGEConv(8, 4, hgeo.PoincareBall())
    >>> conv(torch.tensor([[0, 1, 2], [1, 2, 0]]), torch.randn(3, 8)).shape
    torch.Size([3, 4])
    """

    usual: ClassVar[dict[str, Any]] = GraphLayer.usual | {"add_self_loops": False, "self_weight": True}

    def __init__(
        self,
        in_dim: int | tuple[int, int],
        out_dim: int,
        manifold: Any,
        *,
        in_manifold: Any = None,
        aggregate: Literal["midpoint", "tangent"] = "midpoint",
        activation: Callable[[Tensor], Tensor] | None = torch.relu,
        bias: Literal["none", "point"] = "point",
        input: Literal["points", "tangent"] = "points",
        output: Literal["points", "tangent", "logits"] = "points",
        edge_dim: int | None = None,
        add_self_loops: bool = False,
        fill_value: FillValue = None,
        residual: bool = False,
        self_weight: bool = True,
        backend: str = "auto",
    ) -> None:
        super().__init__(
            in_manifold, manifold, in_dim, out_dim, edge_dim, add_self_loops, fill_value, residual, self_weight
        )
        choice("SAGEConv", "aggregate", aggregate, ("midpoint", "tangent"))
        choice("SAGEConv", "bias", bias, ("none", "point"))
        choice("SAGEConv", "input", input, ("points", "tangent"))
        check_mean(manifold, "gyro" if aggregate == "midpoint" else "tangent")
        self.aggregate, self.backend, self.input, self.output = aggregate, backend, input, output
        self.finish = Finish(activation=activation, output=output)
        self.make_maps(out_dim, out_dim)
        self.make_edge_map(1, gate=True)
        self.bias = point_parameter(manifold, out_dim) if bias == "point" else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """torch's weights for a Linear; the bias at the origin."""
        assert self.out_dim is not None
        for weight in self.maps():
            nn.init.kaiming_uniform_(weight, a=math.sqrt(5))
        if self.bias_edge is not None:
            nn.init.zeros_(self.bias_edge)
        if self.bias is not None:
            with torch.no_grad():
                self.bias.copy_(manifolds.exp0(self.manifold, self.bias.new_zeros(self.out_dim)))

    def forward(
        self,
        graph: Any,
        x: Tensor | tuple[Tensor, Tensor],
        *,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        edge_mask: Tensor | None = None,
    ) -> Tensor:
        """The output for the destinations of ``graph``.

        Args:
            graph: whatever :func:`hgeo.graph.as_graph` reads.
            x: a row a source node; or a pair, rows of the sources and of the destinations.
            edge_weight: (E,) numbers of at least 0, in the caller's edge order: shares of the mean.
            edge_attr: (E, edge_dim) attributes.
            edge_mask: (E,) factors of the messages: what explainers of a model learn.
        """
        edges = self.read(graph, x, edge_weight=edge_weight, edge_attr=edge_attr, edge_mask=edge_mask)
        u, own = self.rows(x, edges)
        dtype, wide = u.dtype, torch.promote_types(u.dtype, torch.float32)  # half precision is rounded once, at the end
        mean, mine = self._mean(edges, u.to(wide)), self._mine(None if own is None else own.to(wide))
        if mine is not None:
            mean = manifolds.translate_rows(self.manifold, mean, mine.to(wide).expand(mean.shape[0], -1))
        y = self.finish(self.manifold, mean.unsqueeze(1), None).to(dtype)
        return manifolds.project(self.manifold, y) if dtype != wide and self.output == "points" else y

    def _mine(self, own: Tensor | None) -> Tensor | None:
        """What moves the mean: a node's own point plus the bias, one of these, or nothing."""
        # the curvature of the bias may have moved since the last step
        bias = None if self.bias is None else manifolds.project(self.manifold, self.bias)
        if own is None:
            return bias
        mine = manifolds.exp0(self.manifold, own)
        return mine if bias is None else manifolds.translate(self.manifold, mine, bias.to(mine))

    def _mean(self, edges: Edges, u: Tensor) -> Tensor:
        """log0 of the means of the neighbours; a factor of all messages of a node makes no difference to a midpoint."""
        graph = edges.graph
        if self.aggregate == "midpoint":
            u = manifolds.lift_rows(self.manifold, u)
        weights = self.factors(edges)
        weights = None if weights is None else weights.to(u.dtype)
        sums = weighted_sum(graph, weights, u.unsqueeze(1), backend=self.backend).squeeze(1)
        if self.aggregate == "midpoint":
            return manifolds.lower_rows(self.manifold, sums)
        if edges.weight is None:
            total = graph.edges_into.to(u.dtype)
        else:
            total, _ = graph.weighted_degrees(edges.weight.squeeze(-1))
        return sums / torch.where(total > 0, total, 1.0).unsqueeze(-1)

    def extra_repr(self) -> str:
        sides = "".join(
            f", {side}={kind!r}" for side in ("input", "output") if (kind := getattr(self, side)) != "points"
        )
        return f"{super().extra_repr()}, aggregate={self.aggregate!r}{sides}"
