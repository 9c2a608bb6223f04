"""Fully Lorentz graph convolution."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from hgeo.graph import edge_dot, edge_softmax
from hgeo.nn._centroid import centroids
from hgeo.nn._edges import Attention, Edges, FillValue, GraphLayer
from hgeo.nn._layer import choice
from hgeo.nn._spatial import (
    check_spatial,
    from_spatial,
    lorentz_sqdist,
    lorentz_sqdist_rows,
    minus_curvature,
    to_spatial,
)
from hgeo.nn.linear import Linear
from hgeo.nn.residual import Residual

__all__ = ["LorentzConv"]


class LorentzConv(GraphLayer):
    r"""Fully Lorentz graph convolution: a Lorentz linear map, then the centroid of the neighbours.

    The convolution of Chen et al., "Fully hyperbolic neural networks" (HyboNet, 2022), on every hyperbolic and flat
    space, with curvatures that may be learned and may differ. It works on points x = (x₀, s) of the hyperboloid, of
    which the spatial part s says all, :math:`t = \sqrt c\,x_0 = \sqrt{1 + c|s|^2}`:

    .. math::
        y_j &= \mathrm{Linear}(x_j) && \text{form="lorentz": } s' = \sigma(W s + w_0 (t - 1) + b) \\
        m_i &= \frac{\sum_{j \in N_i} a_{ij}\, y_j}{\sqrt c\,\big|\sum_j a_{ij}\, y_j\big|_{\mathcal L}}, \qquad
        |z|_{\mathcal L}^2 = z_0^2 - |z_s|^2 && \text{aggregate}

    with N_i the in-neighbours of i and i itself. A factor of all a_ij of a node makes no difference. With
    ``weights="attention"`` they are the softmax over N_i of

    .. math:: -\beta \big(|q_i - k_j|^2 - (q_{i,0} - k_{j,0})^2\big), \qquad q = \mathrm{Linear}_q(y),\;
              k = \mathrm{Linear}_k(y) ,

    minus the squared Lorentzian distance (4/c) sinh²(√c d/2), with a learned β > 0 that begins at 1/√out_dim.
    Attributes f of an edge are a learned term E f of that score; with the other weights they multiply the message by
    :math:`2\,\mathrm{sigmoid}(G f + g)`. With ``self_weight=True`` the output is the weighted midpoint of m_i and a
    Lorentz linear map of the node's own input, and with ``residual=True`` that of it and the input (:class:`Residual`,
    each with a learned weight).

    Args:
        in_dim: intrinsic dimension of the input; -1: of the first input; a pair: of sources and of destinations.
        out_dim: intrinsic dimension of the output.
        manifold: where the output lies, a hyperbolic or a flat space.
        in_manifold: where the input lies; None: raw features, read as vectors of flat space.
        weights: a_ij: "sym", 1/√(deg_i deg_j); "mean", 1/deg_i; "attention". Degrees are in-degree of i and out-degree
            of j, self-loops counted.
        activation: σ, a function of spatial coordinates, or None.
        gate: whether a gate sets the radius, see :class:`Linear`; it is a nonlinearity, too.
        bias: whether there is a b.
        edge_dim: the number of attributes of an edge.
        add_self_loops, fill_value: whether a node without a self-loop gets one, and its weight and attributes (a
            number, "mean", "add", "min" or "max" over its edges; None: weight 1 and the mean of the attributes).
        residual: whether a node keeps of its input: the point itself, or, where ``in_manifold`` is another object than
            ``manifold`` or the dimensions differ, a Lorentz linear map of it without activation and bias.
        self_weight: whether a node has a map of its own.
        input: "points" of ``in_manifold``, or their "spatial" coordinates, as a layer with ``output="spatial"`` gives.
        output: "points" or "spatial", which on other models than the hyperboloid saves the way there and back.
        backend: a name of :func:`hgeo.graph.backends`, or "auto".

    Shapes:
        - graph: whatever :func:`hgeo.graph.as_graph` reads; self-loops are added where they are missing
        - x: (num_src, ambient dimension of ``in_dim``); raw features may be sparse; or a pair of them
        - output: (num_dst, ambient dimension of ``out_dim``), or (num_dst, ``out_dim``) if it is spatial

    Initialised as :class:`Linear`.

    As c → 0 it is the weighted mean Σ_j a_ij σ(W s_j + b) / Σ_j a_ij of vectors in their own length, and the attention
    the softmax of -β|q_i - k_j|². Flat space goes through the same code.

    >>> import torch, hgeo
    >>> conv = hgeo.nn.LorentzConv(8, 4, hgeo.Lorentz(), gate=True)
    >>> conv(torch.tensor([[0, 1, 2], [1, 2, 0]]), torch.randn(3, 8)).shape
    torch.Size([3, 5])
    """

    sized_by: ClassVar[tuple[str, str]] = ("linear.weight", "linear_dst.weight")

    def __init__(
        self,
        in_dim: int | tuple[int, int],
        out_dim: int,
        manifold: Any,
        *,
        in_manifold: Any = None,
        weights: Literal["sym", "mean", "attention"] = "sym",
        activation: Callable[[Tensor], Tensor] | None = None,
        gate: bool = False,
        bias: bool = True,
        edge_dim: int | None = None,
        add_self_loops: bool = True,
        fill_value: FillValue = None,
        residual: bool = False,
        self_weight: bool = False,
        input: Literal["points", "spatial"] = "points",
        output: Literal["points", "spatial"] = "points",
        backend: str = "auto",
    ) -> None:
        super().__init__(
            in_manifold, manifold, in_dim, out_dim, edge_dim, add_self_loops, fill_value, residual, self_weight
        )
        choice("LorentzConv", "weights", weights, ("sym", "mean", "attention"))
        choice("LorentzConv", "input", input, ("points", "spatial"))
        choice("LorentzConv", "output", output, ("points", "spatial"))
        check_spatial("LorentzConv", "it", in_manifold, manifold)
        self.weights, self.input, self.output, self.backend = weights, input, output, backend

        def linear(size: int | None, **options: Any) -> Linear:
            return Linear(size, out_dim, manifold, in_manifold=in_manifold, form="lorentz", **options)

        mapped: dict[str, Any] = {"activation": activation, "gate": gate, "bias": bias}
        self.linear = linear(self.in_dim, **mapped)
        self.linear_dst = linear(self.dst_dim, **mapped) if self.is_pair else None
        self.own = linear(self.dst_dim, **mapped) if self_weight else None
        self.with_own = Residual(manifold) if self_weight else None
        self.skip = linear(self.dst_dim, bias=False) if residual and not self._keeps_its_input() else None
        self.with_input = Residual(manifold) if residual else None
        self.query = Linear(out_dim, out_dim, manifold, form="lorentz") if self.attends else None
        self.key = Linear(out_dim, out_dim, manifold, form="lorentz") if self.attends else None
        self.log_beta = nn.Parameter(torch.empty(())) if self.attends else None
        self.make_edge_map(1, gate=not self.attends)
        self.reset_parameters()

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """That of the linear map."""
        assert self.linear.weight is not None
        return self.linear.weight

    def _keeps_its_input(self) -> bool:
        """Whether an input is a point of where the output lies."""
        return self.in_manifold is self.manifold and self.dst_dim == self.out_dim

    def size_maps(self) -> None:
        """Give the maps without a size that of the dimensions, which are known now."""
        assert self.in_dim is not None
        assert self.dst_dim is not None
        self.skip = None if self._keeps_its_input() else self.skip
        self.linear.size(self.in_dim)
        for layer in (self.linear_dst, self.own, self.skip):
            if layer is not None:
                layer.size(self.dst_dim)

    @property
    def attends(self) -> bool:
        """Whether the a_ij are attention."""
        return self.weights == "attention"

    def reset_parameters(self) -> None:
        """Those of :class:`Linear`; β at 1/√out_dim, gates at 1."""
        assert self.out_dim is not None
        for layer in (self.linear, self.linear_dst, self.own, self.skip, self.query, self.key):
            if layer is not None:
                layer.reset_parameters()
        if self.log_beta is not None:
            nn.init.constant_(self.log_beta, -math.log(self.out_dim) / 2)
        if self.weight_edge is not None:
            nn.init.kaiming_uniform_(self.weight_edge, a=math.sqrt(5))
        if self.bias_edge is not None:
            nn.init.zeros_(self.bias_edge)

    def forward(
        self,
        graph: Any,
        x: Tensor | tuple[Tensor, Tensor],
        return_attention: bool = False,
        *,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        edge_mask: Tensor | None = None,
    ) -> Any:
        """The centroids of the destinations of ``graph``; with ``return_attention`` also an :class:`Attention`.

        Args:
            graph: whatever :func:`hgeo.graph.as_graph` reads.
            x: a row a source node; or a pair, rows of the sources and of the destinations.
            return_attention: for ``weights="attention"``.
            edge_weight: (E,) numbers of at least 0, in the caller's edge order: they multiply the a_ij, and count in
                degrees.
            edge_attr: (E, edge_dim) attributes.
            edge_mask: (E,) factors of the messages, after the softmax: what explainers of a model learn.
        """
        if return_attention and not self.attends:
            raise ValueError(
                f"LorentzConv: weights={self.weights!r} are no attention; make the layer with weights='attention'"
            )
        edges = self.read(graph, x, edge_weight=edge_weight, edge_attr=edge_attr, edge_mask=edge_mask)
        x = self._one_set(x)
        src, dst = (x, x) if isinstance(x, Tensor) else x
        s, count = self._spatial(src), edges.graph.num_dst
        s_dst = s if dst is src else self._spatial(dst)
        y = self.linear.of_spatial(s)
        if dst is not src or self.is_pair:
            y = torch.cat([(self.linear if self.linear_dst is None else self.linear_dst).of_spatial(s_dst)[:count], y])
        c = minus_curvature(self.manifold, y)
        source = _by_degree(edges, y) if self.weights == "sym" else None
        shares = self._shares(edges, y, c) if self.attends else None
        factors = self.factors(edges) if shares is None else self.factors(edges._replace(weight=None), shares)
        middle = centroids(edges.graph, y, c, factors, source, backend=self.backend)
        out = self._with_its_own(middle, dst, s_dst, count)
        if not return_attention:
            return out
        assert shares is not None
        return out, Attention(*edges.graph.to_caller_order(shares))

    def _spatial(self, x: Tensor) -> Tensor:
        return x if self.input == "spatial" else to_spatial(self.in_manifold, x)

    def _with_its_own(self, middle: Tensor, x: Tensor, s: Tensor, count: int) -> Tensor:
        """The output, from the centroids and what the destinations, with spatial coordinates ``s``, keep of their own
        and of their input."""
        if self.with_own is None and self.with_input is None and self.output == "spatial":
            return middle
        out = from_spatial(self.manifold, middle)
        if self.with_own is not None:
            assert self.own is not None
            out = self.with_own(out, from_spatial(self.manifold, self.own.of_spatial(s)[:count]))
        if self.with_input is not None:
            if self.skip is not None:
                x = from_spatial(self.manifold, self.skip.of_spatial(s))
            elif self.input == "spatial":
                x = from_spatial(self.manifold, x)
            out = self.with_input(x[:count], out)
        return out if self.output == "points" else to_spatial(self.manifold, out)

    def _dim_of(self, rows: Tensor) -> int:
        return rows.shape[-1] if self.input == "spatial" else super()._dim_of(rows)

    def _read_numbers(self, dim: int | None) -> int:
        assert dim is not None
        return dim if self.input == "spatial" else self.numbers_of(dim)

    def _shares(self, edges: Edges, s: Tensor, c: Tensor) -> Tensor:
        """(E, 1) attention, of edges with weights a to which log a was added."""
        assert self.query is not None
        assert self.key is not None
        assert self.log_beta is not None
        graph = edges.graph
        query, key = self.query.of_spatial(s[: graph.num_dst]), self.key.of_spatial(s)
        if s.dtype == torch.float64:
            apart = lorentz_sqdist(query.index_select(0, graph.row), key.index_select(0, graph.col), c)
        else:
            apart = edge_dot(graph, *lorentz_sqdist_rows(query, key, c), backend=self.backend).to(s.dtype)
        scores = -(self.log_beta.exp() * apart).unsqueeze(-1)
        if edges.attr is not None:
            scores = scores + self.edge_rows(edges.attr)
        if edges.weight is not None:
            there = edges.weight > 0
            scores = torch.where(there, scores + torch.where(there, edges.weight, 1.0).log(), -torch.inf)
        return edge_softmax(graph, scores, backend=self.backend)

    def extra_repr(self) -> str:
        sides = "".join(
            f", {side}={kind!r}" for side in ("input", "output") if (kind := getattr(self, side)) != "points"
        )
        return f"{super().extra_repr()}, weights={self.weights!r}{sides}"


def _by_degree(edges: Edges, like: Tensor) -> Tensor:
    """(num_src, 1): 1/√(out-degree); what 1/√(in-degree) would add makes no difference to a centroid.

    Without weights of the edges it is made once a graph.
    """
    graph = edges.graph
    if edges.weight is not None:
        _, out = graph.weighted_degrees(edges.weight.squeeze(-1))
        return torch.where(out > 0, out, 1.0).rsqrt().unsqueeze(-1)
    wide = torch.float32 if like.device.type == "mps" else torch.float64  # as the sums are made
    tracing = torch.compiler.is_compiling()
    found: Tensor | None = None if tracing else graph.cache.get("roots of out-degrees")
    if found is None:
        found = graph.out_degrees.clamp(min=1).to(wide).rsqrt().unsqueeze(-1)
        if not tracing:
            graph.cache["roots of out-degrees"] = found
    return found
