"""Fully Lorentz graph convolution."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from hgeo.graph import Graph, edge_softmax
from hgeo.manifolds import describe
from hgeo.nn._centroid import centroids
from hgeo.nn._edges import Edges, FillValue, GraphLayer
from hgeo.nn._layer import choice
from hgeo.nn._spatial import check_spatial, from_spatial, lorentz_sqdist, minus_curvature, to_spatial
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

    minus the squared Lorentzian distance (4/c) sinh²(√c d/2), with a learned β > 0 that begins at 1/√out_dim. With
    ``self_weight=True`` the output is the weighted midpoint of m_i and a Lorentz linear map of the node's own input,
    and with ``residual=True`` that of it and the input (:class:`Residual`, each with a learned weight).

    Args:
        in_dim, out_dim: intrinsic dimensions.
        manifold: where the output lies, a hyperbolic or a flat space.
        in_manifold: where the input lies; None: raw features, read as vectors of flat space.
        weights: a_ij: "sym", 1/√(deg_i deg_j); "mean", 1/deg_i; "attention". Degrees are in-degree of i and out-degree
            of j, self-loops counted.
        activation: σ, a function of spatial coordinates, or None.
        gate: whether a gate sets the radius, see :class:`Linear`; it is a nonlinearity, too.
        bias: whether there is a b.
        add_self_loops, fill_value: whether a node without a self-loop gets one, and its weight (None: 1).
        residual, self_weight: what else a node keeps of its own; a residual needs one space and one dimension.
        input: "points" of ``in_manifold``, or their "spatial" coordinates, as a layer with ``output="spatial"`` gives.
        output: "points" or "spatial", which on other models than the hyperboloid saves the way there and back.
        backend: a name of :func:`hgeo.graph.backends`, or "auto".

    Shapes:
        - graph: whatever :func:`hgeo.graph.as_graph` reads; self-loops are added where they are missing
        - x: (num_src, ambient dimension of ``in_dim``); raw features may be sparse
        - output: (num_dst, ambient dimension of ``out_dim``), or (num_dst, ``out_dim``) if it is spatial

    Initialised as :class:`Linear`.

    As c → 0 it is the weighted mean Σ_j a_ij σ(W s_j + b) / Σ_j a_ij of vectors in their own length, and the attention
    the softmax of -β|q_i - k_j|². Flat space goes through the same code.

    >>> import torch, hgeo
    >>> conv = hgeo.nn.LorentzConv(8, 4, hgeo.Lorentz(), gate=True)
    >>> conv(torch.tensor([[0, 1, 2], [1, 2, 0]]), torch.randn(3, 8)).shape
    torch.Size([3, 5])
    """

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        manifold: Any,
        *,
        in_manifold: Any = None,
        weights: Literal["sym", "mean", "attention"] = "sym",
        activation: Callable[[Tensor], Tensor] | None = None,
        gate: bool = False,
        bias: bool = True,
        add_self_loops: bool = True,
        fill_value: FillValue = None,
        residual: bool = False,
        self_weight: bool = False,
        input: Literal["points", "spatial"] = "points",
        output: Literal["points", "spatial"] = "points",
        backend: str = "auto",
    ) -> None:
        if not isinstance(in_dim, int) or in_dim < 1:
            raise ValueError(f"LorentzConv: in_dim must be a whole number of at least 1, got {in_dim!r}")
        super().__init__(
            in_manifold, manifold, in_dim, out_dim, None, add_self_loops, fill_value, residual, self_weight
        )
        choice("LorentzConv", "weights", weights, ("sym", "mean", "attention"))
        choice("LorentzConv", "input", input, ("points", "spatial"))
        choice("LorentzConv", "output", output, ("points", "spatial"))
        check_spatial("LorentzConv", "it", in_manifold, manifold)
        if residual and (in_manifold is not manifold or in_dim != out_dim):
            raise ValueError(
                f"LorentzConv: residual=True needs in_manifold and manifold to be one object and in_dim = out_dim, got "
                f"{describe(in_manifold, in_dim)} and {describe(manifold, out_dim)}; use self_weight=True"
            )
        self.weights, self.input, self.output, self.backend = weights, input, output, backend
        mapped: dict[str, Any] = {"form": "lorentz", "activation": activation, "gate": gate, "bias": bias}
        self.linear = Linear(in_dim, out_dim, manifold, in_manifold=in_manifold, **mapped)
        self.own = Linear(in_dim, out_dim, manifold, in_manifold=in_manifold, **mapped) if self_weight else None
        self.with_own = Residual(manifold) if self_weight else None
        self.with_input = Residual(manifold) if residual else None
        attends = weights == "attention"
        self.query = Linear(out_dim, out_dim, manifold, form="lorentz") if attends else None
        self.key = Linear(out_dim, out_dim, manifold, form="lorentz") if attends else None
        self.log_beta = nn.Parameter(torch.empty(())) if attends else None
        self.reset_parameters()

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """That of the linear map."""
        assert self.linear.weight is not None
        return self.linear.weight

    def reset_parameters(self) -> None:
        """Those of :class:`Linear`; β at 1/√out_dim."""
        assert self.out_dim is not None
        for layer in (self.linear, self.own, self.query, self.key):
            if layer is not None:
                layer.reset_parameters()
        if self.log_beta is not None:
            nn.init.constant_(self.log_beta, -math.log(self.out_dim) / 2)

    def forward(
        self, graph: Any, x: Tensor, *, edge_weight: Tensor | None = None, edge_mask: Tensor | None = None
    ) -> Tensor:
        """The centroids of the destinations of ``graph``.

        Args:
            graph: whatever :func:`hgeo.graph.as_graph` reads.
            x: a row a source node.
            edge_weight: (E,) numbers of at least 0, in the caller's edge order: they multiply the a_ij, and count in
                degrees.
            edge_mask: (E,) factors of the messages, after the softmax: what explainers of a model learn.
        """
        edges = self.read(graph, x, edge_weight=edge_weight, edge_mask=edge_mask)
        s = x if self.input == "spatial" else to_spatial(self.in_manifold, x)
        y = self.linear.of_spatial(s)
        c = minus_curvature(self.manifold, y)
        source = _by_degree(edges, y) if self.weights == "sym" else None
        middle = centroids(edges.graph, y, c, self._weights(edges, y, c), source, backend=self.backend)
        if self.with_own is None and self.with_input is None and self.output == "spatial":
            return middle
        out, count = from_spatial(self.manifold, middle), edges.graph.num_dst
        if self.with_own is not None:
            assert self.own is not None
            own = self.own.of_spatial(s)[:count]
            out = self.with_own(out, from_spatial(self.manifold, own))
        if self.with_input is not None:
            given = x if self.input == "points" else from_spatial(self.manifold, x)
            out = self.with_input(given[:count], out)
        return out if self.output == "points" else to_spatial(self.manifold, out)

    def _read_numbers(self, dim: int | None) -> int:
        assert dim is not None
        return dim if self.input == "spatial" else self._numbers_of(dim)

    def _weights(self, edges: Edges, y: Tensor, c: Tensor) -> Tensor | None:
        """(E, 1) factors of the messages beside those of degrees; None: 1. A factor of all of a node's is free."""
        factors = [self._shares(edges.graph, y, c)] if self.weights == "attention" else []
        factors += [value.to(y.dtype) for value in (edges.weight, edges.mask) if value is not None]
        if not factors:
            return None
        product = factors[0]
        for factor in factors[1:]:
            product = product * factor
        return edges.graph.without_padding(product, 0.0)

    def _shares(self, graph: Graph, s: Tensor, c: Tensor) -> Tensor:
        """(E, 1) attention."""
        assert self.query is not None
        assert self.key is not None
        assert self.log_beta is not None
        query, key = self.query.of_spatial(s[: graph.num_dst]), self.key.of_spatial(s)
        apart = lorentz_sqdist(query.index_select(0, graph.row), key.index_select(0, graph.col), c)
        return edge_softmax(graph, -(self.log_beta.exp() * apart).unsqueeze(-1), backend=self.backend)

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
