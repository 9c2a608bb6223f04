"""Decoders of links by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from hgeo.nn.distancedecoder import DistanceDecoder
from hgeo.nn.fermidirac import FermiDiracDecoder
from hgeo.nn.innerproductdecoder import InnerProductDecoder

__all__ = ["DECODERS", "decoder"]

#: Decoders of links by name: what makes one on a manifold. Each gives ``logits(x, pairs)``.
DECODERS: dict[str, Callable[[Any], nn.Module]] = {
    "fermi-dirac": lambda manifold: FermiDiracDecoder(manifold, learnable=False),
    "learned-fermi-dirac": FermiDiracDecoder,
    "distance": lambda manifold: DistanceDecoder(manifold, learnable=True),
    "squared-distance": lambda manifold: DistanceDecoder(manifold, power=2, learnable=True),
    "inner-product": lambda manifold: InnerProductDecoder(manifold, learnable=True),
}


def decoder(name: str, manifold: Any) -> nn.Module:
    """The decoder of links called ``name``, for points of ``manifold``.

    "fermi-dirac" is hgcn's, (2 - d²)/1 and never trained, "learned-fermi-dirac" trains both numbers; "distance" b - βd,
    "squared-distance" b - βd² and "inner-product" b + β⟨log0 x, log0 y⟩ learn their b and β. All of them have
    ``logits(x, pairs)``, for ``binary_cross_entropy_with_logits``.

    >>> import torch, hgeo
    >>> hgeo.nn.decoder("fermi-dirac", hgeo.PoincareBall()).logits(torch.zeros(3, 2), torch.tensor([[0], [2]]))
    tensor([2.])
    """
    if name not in DECODERS:
        raise ValueError(f"no decoder {name!r}; there are {', '.join(DECODERS)}")
    return DECODERS[name](manifold)
