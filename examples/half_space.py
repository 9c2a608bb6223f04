"""A space of one's own in one file, Poincaré's half-space: layers, training, pictures and laws then know it.

``python examples/half_space.py`` (with or without ``--smoke``), or by its word, with ``PYTHONPATH=examples``:
``HGEO_PLUGINS=half_space hgeo train --dataset karate --space half:2``.
"""

import geoopt
import torch
from torch.func import jvp

import hgeo


def swap(x):
    """The inversion that exchanges the half-space and the unit ball, and the point (0, 1) and the ball's centre."""
    top = torch.cat([2 * x[..., :-1], hgeo.math.careful_flatness(x, -1.0, dim=-1)], dim=-1)  # 2x' and 1 - |x|²
    return top / (x[..., :-1].square().sum(-1, keepdim=True) + (1 + x[..., -1:]).square())


class HalfSpace(geoopt.manifolds.base.Manifold):
    """Points (x', h), h > 0, with the metric (|dx'|² + dh²)/(c h²). A ball keeps the curvature and lends operations."""

    name, ndim, reversible = "HalfSpace", 1, True

    def __init__(self, c=1.0, learnable=False):
        super().__init__()
        self.ball = hgeo.PoincareBall(c, learnable)

    c = property(lambda self: self.ball.c)

    def to_ball(self, x):
        return swap(x) / self.c.to(x).sqrt()

    def from_ball(self, y):
        return swap(y * self.c.to(y).sqrt())

    def _check_point_on_manifold(self, x, *, atol=1e-5, rtol=1e-5):
        return bool((x[..., -1] >= torch.finfo(x.dtype).eps).all()), "the last number must be positive"

    def _check_vector_on_tangent(self, x, u, *, atol=1e-5, rtol=1e-5):
        return True, None

    def projx(self, x):
        return torch.cat([x[..., :-1], x[..., -1:].clamp(min=torch.finfo(x.dtype).eps)], dim=-1)

    def proju(self, x, u):
        return u

    def egrad2rgrad(self, x, u):
        return self.c.to(x) * x[..., -1:].square() * u

    def inner(self, x, u, v=None, *, keepdim=False):
        return (u * (u if v is None else v) / (self.c.to(x) * x[..., -1:].square())).sum(-1, keepdim=keepdim)

    def norm(self, x, u, *, keepdim=False):
        return hgeo.math.safe_sqrt(self.inner(x, u, keepdim=keepdim))  # a root with a derivative at 0

    def dist(self, x, y, *, keepdim=False):
        return self.ball.dist(self.to_ball(x), self.to_ball(y), keepdim=keepdim)

    def expmap(self, x, u):
        return self.from_ball(self.ball.expmap(*jvp(self.to_ball, (x,), (u,))))

    retr = expmap

    def logmap(self, x, y):
        x, y = self.to_ball(x), self.to_ball(y)
        return jvp(self.from_ball, (x,), (self.ball.logmap(x, y),))[1]

    def transp(self, x, y, v):
        (x, v), y = jvp(self.to_ball, (x,), (v,)), self.to_ball(y)
        return jvp(self.from_ball, (y,), (self.ball.transp(x, y, v),))[1]


# Of constant curvature, with c, to_ball and from_ball: frame, means, hyperplanes and pictures follow.
hgeo.register(HalfSpace, hgeo.manifolds.ConstantCurvature(), word=hgeo.manifolds.Word("half", HalfSpace, "c"))

if __name__ == "__main__":
    print(hgeo.testing.check_manifold(hgeo.space("half:3,c=0.5").manifold, laws="metric", max_examples=20).summary())
