"""Attention among the points of a set, by distance."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hgeo import manifolds
from hgeo import math as hm
from hgeo.manifolds import describe
from hgeo.nn._layer import Layer, check_shares, positive

__all__ = ["SetAttention", "set_attention"]

# √c times the radius up to which products of float32 points are made in float32
_NEAR = 3.0


def set_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | Tensor | None = None,
    *,
    manifold: Any,
) -> Tensor:
    r"""Attends by distance among points, in the signature of torch's ``scaled_dot_product_attention``.

    .. math:: y_i = \mathrm{mid}_j(v_j, w_{ij}), \qquad
              w_{ij} = \mathrm{softmax}_j\big(-\tfrac{s}{2}\, \chi(q_i, k_j)^2 + b_{ij}\big)

    with the gyromidpoint of the values, and :math:`\chi^2 = \tfrac4c \sinh^2(\sqrt c\,d/2)` the squared Lorentzian
    distance (on a sphere the squared chord, on flat space d², on a product their sum), which one matrix product gives.
    In flat space scores are torch's, s⟨q, k⟩, but for -s|q|²/2, which makes no difference, and -s|k|²/2.

    Far out the difference of products would be noise: products of float32 points are made in float64, and so are the
    sums of values.

    Args:
        query: (..., L, ambient dimension) points.
        key, value: (..., S, ambient dimension) points.
        attn_mask: (..., L, S): True where j may be heard, or numbers b that are added. Who may hear nobody gets the
            origin.
        dropout_p: share of the weights that are dropped, as in torch whether or not something is trained.
        is_causal: i hears j ≤ i only.
        scale: s > 0, a number or a tensor that broadcasts to (..., 1, 1); None: 1/√d.
        manifold: where all the points lie, a space with means whose curvature, or whose factors', is constant.

    >>> import torch, hgeo
    >>> x = hgeo.exp0(hgeo.Lorentz(), torch.randn(2, 5, 3))
    >>> hgeo.nn.set_attention(x, x, x, is_causal=True, manifold=hgeo.Lorentz()).shape
    torch.Size([2, 5, 4])
    """
    dim = _check_sets(manifold, query, key, value)
    if is_causal and attn_mask is not None:
        raise ValueError("set_attention: give is_causal or an attn_mask, not both")
    with torch.autocast(query.device.type, enabled=False):  # differences of products of half precision are noise
        scores = _scores(manifold, query, key, 1 / math.sqrt(dim) if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    silent = None
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
        silent = (scores == -torch.inf).all(-1, keepdim=True)
        scores = torch.where(silent, 0.0, scores)
    weights = scores.softmax(-1)
    weights = F.dropout(weights, dropout_p) if dropout_p else weights
    weights = weights if silent is None else torch.where(silent, 0.0, weights)
    with torch.autocast(query.device.type, enabled=False):
        return _midpoints(manifold, weights, value)


def _check_sets(manifold: Any, query: Tensor, key: Tensor, value: Tensor) -> int:
    """Refuse what are no points of one manifold; their intrinsic dimension."""
    sizes = {x.shape[-1] for x in (query, key, value)}
    if len(sizes) > 1 or key.shape[-2] != value.shape[-2]:
        raise ValueError(
            f"set_attention: query (..., L, n), key and value (..., S, n) are points of one manifold, got shapes "
            f"{tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)}"
        )
    dim = manifolds.intrinsic_dim(manifold, query.shape[-1])
    if manifolds.parts(manifold, dim) is None:
        raise TypeError(
            f"set_attention, SetAttention: they need a space of constant curvature or a product of such, which "
            f"{describe(manifold, dim)} does not say it is"
        )
    return dim


def _parted(manifold: Any, x: Tensor) -> list[tuple[Tensor, Tensor]]:
    """For each factor of constant curvature: tangent coordinates of Riemannian length, and the curvature."""
    v = manifolds.log0(manifold, x)
    parts = manifolds.parts(manifold, v.shape[-1]) or []
    return [(v[..., part.coordinates] * part.scale, part.curvature.to(v)) for part in parts]


def _wide(manifold: Any, x: Tensor) -> Tensor:
    """Points in float64, unless float32 is known to do: within radius 3, products keep five digits."""
    if x.device.type == "mps" or x.dtype == torch.float64:
        return x
    if manifolds.can_look(x) and x.dtype == torch.float32:
        with torch.no_grad():
            squares = [float((-k * (v * v).sum(-1)).amax()) if v.numel() else 0.0 for v, k in _parted(manifold, x)]
        if max(squares) <= _NEAR**2:
            return x
    return manifolds.project(manifold, x.double())  # numbers that follow from others follow them in float64, too


def _scores(manifold: Any, query: Tensor, key: Tensor, scale: float | Tensor) -> Tensor:
    """(..., L, S): -s/2 times the squared Lorentzian distances or chords, 2 (a + b - k a b - ⟨u, v⟩) for each factor,
    with u = sin_k of the coordinates and a = (1 - cos_k)/k."""
    q, k = _wide(manifold, query), _wide(manifold, key)
    dtype = torch.promote_types(q.dtype, k.dtype)
    rows, columns = [], []
    for (mine, curvature), (theirs, _) in zip(
        _parted(manifold, q.to(dtype)), _parted(manifold, k.to(dtype)), strict=True
    ):
        (u, a), (v, b) = _sine(mine, curvature), _sine(theirs, curvature)
        rows += [u, -a, curvature * a - 1]
        columns += [v, torch.ones_like(b), b]
    return (scale * torch.cat(rows, -1) @ torch.cat(columns, -1).mT).to(query.dtype)


def _sine(v: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """sin_k of the vector, and (1 - cos_k)/k = |v|² (sin_k(|v|/2)/(|v|/2))²/2."""
    squared = (v * v).sum(-1, keepdim=True)
    return v * hm.sin_ratio(k * squared), squared * hm.sin_ratio(k * squared / 4) ** 2 / 2


def _midpoints(manifold: Any, weights: Tensor, value: Tensor) -> Tensor:
    lifted = manifolds.lift(manifold, _wide(manifold, value))
    middle = manifolds.lower(manifold, weights.to(lifted.dtype) @ lifted)
    return manifolds.project(manifold, middle.to(value.dtype))


class SetAttention(Layer):
    r"""Multi-head attention by distance among the points of a set: :class:`torch.nn.MultiheadAttention` of points.

    .. math:: q_h = \exp_0(W^q_h u + b^q_h),\ k_h, v_h \text{ alike}, \quad u = \log_0 x, \qquad
              y = \exp_0\Big(W \big[\log_0 \mathrm{attend}_h(q_h, k_h, v_h)\big]_h + b\Big)

    of vectors as long as they are in the tangent space, with :func:`set_attention` and one learned s a head, which
    begins at 1/√head_dim. Attention by distance is that of Gulcehre et al., "Hyperbolic attention networks" (2019),
    whose scores are -βd.

    Args:
        dim: intrinsic dimension of the points.
        manifold: where they lie; a head, of dimension ``head_dim``, lies on it, too.
        heads: number of heads.
        head_dim: intrinsic dimension of a head; None: dim/heads.
        bias: whether there are b.
        dropout: share of the weights that are dropped in training.

    Shapes:
        - x: (..., L, ambient dimension of ``dim``); memory: (..., S, the same)
        - attn_mask: (..., L, S), True where a point may be heard, or numbers added to the scores
        - output: like x

    Initialised as :class:`torch.nn.Linear`.

    As c → 0 it is attention with the scores -s|q - k|²/2, weighted means of the values and torch's linear maps, on the
    stereographic family of 2x and halved.

    >>> import torch, hgeo
    >>> attention = hgeo.nn.SetAttention(8, hgeo.Lorentz(), heads=2)
    >>> attention(hgeo.exp0(attention.manifold, torch.randn(3, 5, 8)), is_causal=True).shape
    torch.Size([3, 5, 9])
    """

    def __init__(
        self,
        dim: int,
        manifold: Any,
        *,
        heads: int = 1,
        head_dim: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(manifold, manifold, dim, dim)
        positive("SetAttention", "heads", heads)
        check_shares("SetAttention", dropout=dropout)
        if head_dim is None and dim % heads:
            raise ValueError(f"SetAttention: {heads} heads do not divide dim={dim}; give head_dim")
        self.heads, self.dropout = heads, dropout
        self.head_dim = dim // heads if head_dim is None else head_dim
        positive("SetAttention", "head_dim", self.head_dim)
        origin = manifolds.exp0(manifold, torch.zeros(1, self.head_dim))
        set_attention(origin, origin, origin, manifold=manifold)  # a manifold that cannot says so now
        self.inner = nn.Linear(dim, 3 * heads * self.head_dim, bias=bias)
        self.outer = nn.Linear(heads * self.head_dim, dim, bias=bias)
        self.log_scale = nn.Parameter(torch.empty(heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """torch's for linear maps; s at 1/√head_dim."""
        self.inner.reset_parameters()
        self.outer.reset_parameters()
        nn.init.constant_(self.log_scale, -math.log(self.head_dim) / 2)

    def forward(
        self, x: Tensor, memory: Tensor | None = None, *, attn_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        """The points of ``x`` attend to those of ``memory``, or to each other."""
        self.check(x, self.log_scale)
        if memory is None:
            query, key, value = self._heads(x, 0, 3)
        else:
            self.check(memory, self.log_scale)
            (query,), (key, value) = self._heads(x, 0, 1), self._heads(memory, 1, 3)
        if attn_mask is not None and attn_mask.dim() > 2:
            attn_mask = attn_mask.unsqueeze(-3)  # the same for all heads
        heard = set_attention(
            query, key, value, attn_mask, self.dropout if self.training else 0.0, is_causal,
            self.log_scale.exp().view(-1, 1, 1), manifold=self.manifold,
        )  # fmt: skip
        unit = manifolds.frame_scale(self.manifold)
        rows = unit * manifolds.log0(self.manifold, heard).transpose(-2, -3).flatten(-2)
        return manifolds.exp0(self.manifold, self.outer(rows).to(rows.dtype) / unit)

    def _heads(self, x: Tensor, first: int, last: int) -> list[Tensor]:
        """Of query, key and value some, (..., heads, L, ambient dimension of a head) points each."""
        size = self.heads * self.head_dim
        part, bias = slice(first * size, last * size), self.inner.bias
        unit = manifolds.frame_scale(self.manifold)
        v = unit * manifolds.log0(self.manifold, x)
        # Autocast may multiply in a lower precision; the geometry goes on in that of the weights.
        u = F.linear(v, self.inner.weight[part], None if bias is None else bias[part]).to(v.dtype) / unit
        points = manifolds.exp0(self.manifold, u.unflatten(-1, (last - first, self.heads, self.head_dim)))
        return [points[..., n, :, :].transpose(-2, -3) for n in range(last - first)]

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, heads={self.heads}"
