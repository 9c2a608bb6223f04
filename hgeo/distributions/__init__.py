"""Probability distributions on curved spaces, as :class:`torch.distributions.Distribution`.

>>> import torch, hgeo
>>> ball = hgeo.PoincareBall()
>>> noise = hgeo.distributions.WrappedNormal(ball, torch.tensor([0.3, 0.0]), 0.5)
>>> noise.rsample((1000,)).shape, noise.log_prob(torch.tensor([0.3, 0.0]))
(torch.Size([1000, 2]), tensor(-0.4516))
"""

from hgeo.distributions._wrapped_normal import WrappedNormal

__all__ = ["WrappedNormal"]
