"""Graph convolution on curved spaces."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from hgeo import manifolds
from hgeo.graph import Finish, Graph, weighted_sum
from hgeo.nn._inputs import check_features, linear, read_graph
from hgeo.nn._layer import Layer, carry_factor, choice, coordinates, point_parameter

__all__ = ["GCNConv"]


class GCNConv(Layer):
    r"""Graph convolution, on any manifold with an origin frame.

    With N_i the in-neighbours of i and i itself, and :math:`a_{ij}` = ``norm`` of the edge j → i,

    .. math::
        h_j &= (W \otimes x_j) \oplus b && \text{transform} \\
        m_i &= \exp_0\Big(\sum_{j \in N_i} a_{ij} \log_0 h_j\Big) && \text{aggregate="tangent"} \\
        m_i &= \tfrac12 \otimes \frac{\sum_j a_{ij} \lambda_j h_j}{\sum_j a_{ij} (\lambda_j - 1)}
            && \text{"midpoint": the gyromidpoint, a weighted mean} \\
        m_i &= \Big(\sum_j a_{ij}\Big) \otimes \text{that} && \text{"gyrosum": of the size of a weighted sum} \\
        y_i &= \exp_0(\sigma(\log_0 m_i)) && \text{activate}

    "tangent" with a point bias is the hyperbolic GCN of Chami et al. (HGCN, 2019; its aggregation at the origin),
    without a bias the hyperbolic GNN of Liu et al. (HGNN, 2019), "gyrosum" the constant-curvature GCN of Bachmann et
    al. (κ-GCN, 2020).

    Args:
        in_dim, out_dim: intrinsic dimensions.
        manifold: where the output lies.
        in_manifold: where the input lies; None: raw features, read as tangent coordinates at the origin. After another
            layer it is that one's ``manifold``: points read as raw features are no error, but not what was meant.
        aggregate: "tangent", "midpoint" or "gyrosum".
        norm: a_ij: "sym", 1/√(deg_i deg_j); "mean", 1/deg_i; "sum", 1. Degrees are in-degree of i and
            out-degree of j, self-loops counted.
        activation: σ, a function of tangent coordinates, or None.
        bias: "none" or "point" (a ``geoopt.ManifoldParameter``).
        input: "points" of ``in_manifold``, or "tangent": their log0, as a layer with ``output="tangent"`` gives them.
        output: "points"; "tangent": log0 of them, which saves the way to points and back between two layers; "logits":
            tangent coordinates to be read as numbers, that do not end where the points of a dtype or a sphere do.
        backend: a name of :func:`hgeo.graph.backends`, or "auto".

    Shapes:
        - graph: whatever :func:`hgeo.graph.as_graph` reads; self-loops are added where they are missing
        - x: (num_src, ambient dimension of ``in_dim``); raw features may be sparse
        - output: (num_dst, ambient dimension of ``out_dim``), or (num_dst, ``out_dim``) if it is not points

    Initialised as :class:`Linear`, the bias at the origin.

    As c → 0: σ(Σ_j a_ij (W x_j + b)), and for "midpoint" the weighted mean, σ(Σ_j a_ij (W x_j + b) / Σ_j a_ij).

    >>> import torch, hgeo
    >>> conv = hgeo.nn.GCNConv(8, 4, hgeo.PoincareBall())
    >>> conv(torch.tensor([[0, 1, 2], [1, 2, 0]]), torch.randn(3, 8)).shape
    torch.Size([3, 4])
    """

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        manifold: Any,
        *,
        in_manifold: Any = None,
        aggregate: Literal["tangent", "midpoint", "gyrosum"] = "tangent",
        norm: Literal["sym", "mean", "sum"] = "sym",
        activation: Callable[[Tensor], Tensor] | None = torch.relu,
        bias: Literal["none", "point"] = "point",
        input: Literal["points", "tangent"] = "points",
        output: Literal["points", "tangent", "logits"] = "points",
        backend: str = "auto",
    ) -> None:
        super().__init__(in_manifold, manifold, in_dim, out_dim)
        choice("GCNConv", "aggregate", aggregate, ("tangent", "midpoint", "gyrosum"))
        choice("GCNConv", "norm", norm, ("sym", "mean", "sum"))
        choice("GCNConv", "bias", bias, ("none", "point"))
        choice("GCNConv", "input", input, ("points", "tangent"))
        self.aggregate, self.norm, self.backend = aggregate, norm, backend
        self.input, self.output = input, output
        self.finish = Finish(activation=activation, output=output)
        self.weight = nn.Parameter(torch.empty(out_dim, in_dim))
        self.bias = point_parameter(manifold, out_dim) if bias == "point" else None
        if aggregate != "tangent":  # a manifold without gyromidpoints says so now
            manifolds.lift(manifold, manifolds.exp0(manifold, torch.zeros(out_dim)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """torch's weights for a Linear; the bias at the origin."""
        assert self.out_dim is not None
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            with torch.no_grad():
                self.bias.copy_(manifolds.exp0(self.manifold, self.weight.new_zeros(self.out_dim)))

    def forward(self, graph: Any, x: Tensor) -> Tensor:
        """The output for the destinations of ``graph``, points of ``manifold`` if not told otherwise."""
        given = read_graph(graph, x)
        numbers = self.in_dim if self.input == "tangent" else self._numbers
        assert numbers is not None
        check_features(self, x, numbers, self.weight)
        looped = given.with_self_loops()
        source, target = _norm_factors(looped, self.norm, self.weight.dtype)
        u = self._transform(x)
        if self.aggregate == "tangent":
            mean = target * weighted_sum(looped, None, (source * u).unsqueeze(1), backend=self.backend).squeeze(1)
            return self.finish(self.manifold, mean.unsqueeze(1), None)
        lifted = source * manifolds.lift(self.manifold, manifolds.exp0(self.manifold, u))
        sums = weighted_sum(looped, None, lifted.unsqueeze(1), backend=self.backend).squeeze(1)
        middle = manifolds.lower(self.manifold, sums)  # a factor of the sums makes no difference
        if self.aggregate == "midpoint" and self.finish.activation is None:
            return self.finish.of_points(self.manifold, middle)
        mean = manifolds.log0(self.manifold, middle)
        if self.aggregate == "gyrosum":
            column = source.expand(looped.num_src, 1).unsqueeze(1)
            mean = mean * (target * weighted_sum(looped, None, column, backend=self.backend).squeeze(1))
        return self.finish(self.manifold, mean.unsqueeze(1), None)

    def _transform(self, x: Tensor) -> Tensor:
        """Tangent coordinates of (W ⊗ x) ⊕ b."""
        v = x if self.input == "tangent" else coordinates(self.in_manifold, x)
        factor = carry_factor(self.in_manifold, self.manifold)
        # Autocast may multiply in a lower precision; the geometry goes on in that of the weights.
        u = linear(v if factor == 1 else v * factor, self.weight).to(self.weight.dtype)
        if self.bias is None:
            return u
        point = manifolds.project(self.manifold, self.bias)  # its curvature may have moved since the last step
        moved = manifolds.translate(self.manifold, manifolds.exp0(self.manifold, u), point)
        return manifolds.log0(self.manifold, moved)

    def extra_repr(self) -> str:
        sides = "".join(
            f", {side}={kind!r}" for side in ("input", "output") if (kind := getattr(self, side)) != "points"
        )
        return f"{super().extra_repr()}, aggregate={self.aggregate!r}, norm={self.norm!r}{sides}"


def _norm_factors(graph: Graph, norm: str, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Columns s (num_src, 1) and t (num_dst, 1), or (1, 1) where all are 1, with a_ij = t_i s_j; made once a graph."""
    tracing = torch.compiler.is_compiling()
    factors: tuple[Tensor, Tensor] | None = None if tracing else graph.cache.get((norm, dtype))
    if factors is None:
        one = torch.ones(1, 1, dtype=dtype, device=graph.device)
        inside, outside = (d.clamp(min=1).to(dtype).unsqueeze(-1) for d in (graph.in_degrees, graph.out_degrees))
        factors = {"sum": (one, one), "mean": (one, 1 / inside), "sym": (outside.rsqrt(), inside.rsqrt())}[norm]
        if not tracing:
            graph.cache[norm, dtype] = factors
    return factors
