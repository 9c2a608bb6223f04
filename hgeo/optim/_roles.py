"""What each parameter is: a weight, a point of a manifold, or a curvature."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from hgeo._geoopt import geoopt

__all__ = ["Parameters", "Roles", "parameter_roles"]

Parameters = nn.Module | Iterable[nn.Module | Tensor | tuple[str, Tensor]]
"""A module, or any mixture of modules, parameters and named parameters."""

# What hgeo and geoopt store a curvature under. Such a name without its manifold means that the caller lost the manifold
# on the way, and the curvature would be decayed like a weight.
_CURVATURE_NAMES = ("stored_c", "stored_k", "isp_c", "isp_k")


@dataclass
class Roles:
    """Every parameter exactly once, by what it is.

    Attributes:
        weights: Euclidean parameters.
        points: ``geoopt.ManifoldParameter`` s.
        curvatures: the parameters of every manifold that was found (a learnable scale of ``geoopt.Scaled`` is one).
        manifolds: those manifolds, products and their factors apart.
        placed: everything that lies on a manifold: the points, and tensors of points that are buffers.
    """

    weights: list[Tensor] = field(default_factory=list)
    points: list[geoopt.ManifoldParameter] = field(default_factory=list)
    curvatures: list[Tensor] = field(default_factory=list)
    manifolds: list[geoopt.Manifold] = field(default_factory=list)
    placed: list[geoopt.ManifoldTensor] = field(default_factory=list)


def _entries(given: Parameters) -> Iterator[nn.Module | tuple[str | None, Tensor]]:
    if isinstance(given, nn.Module):
        yield given
        return
    if isinstance(given, Tensor) or not isinstance(given, Iterable):
        raise TypeError(
            "expected a module, or a list of modules, parameters or (name, parameter) pairs, got "
            f"{type(given).__name__}"
        )
    for entry in given:
        if isinstance(entry, nn.Module):
            yield entry
        elif isinstance(entry, Tensor):
            yield None, entry
        elif isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[1], Tensor):
            yield entry
        elif isinstance(entry, dict):
            raise TypeError(
                "parameter groups are made by the optimiser itself, by what each parameter is: give the module, and "
                "set curvature_lr, weight_decay, point_decay; a group's options can be changed afterwards in "
                "optimizer.param_groups"
            )
        else:
            raise TypeError(f"expected a module, a parameter or a (name, parameter) pair, got {entry!r}")


def parameter_roles(given: Parameters) -> Roles:
    """Sort parameters into weights, points and curvatures.

    A curvature is a parameter of a manifold: of one that is a submodule, of one that only hangs on a point, or of any
    other that is alive, so that ``model.parameters()`` is sorted as ``model`` is.

    >>> import torch, hgeo
    >>> from geoopt import ManifoldParameter
    >>> point = ManifoldParameter(torch.zeros(2), manifold=hgeo.PoincareBall(learnable=True))
    >>> roles = parameter_roles([point])
    >>> len(roles.points), len(roles.curvatures)
    (1, 1)
    """
    tensors: dict[Tensor, str | None] = {}
    bare: dict[Tensor, None] = {}  # given without a module
    manifolds: dict[geoopt.Manifold, None] = {}
    placed: dict[geoopt.ManifoldTensor, None] = {}
    submodule_curvatures: set[Tensor] = set()
    distributed = False
    for entry in _entries(given):
        if isinstance(entry, tuple):
            tensors.setdefault(entry[1], entry[0])
            bare.setdefault(entry[1])
            continue
        distributed |= isinstance(entry, nn.parallel.DistributedDataParallel)
        for module in entry.modules():
            if isinstance(module, geoopt.Manifold):
                manifolds.setdefault(module)
                submodule_curvatures.update(module.parameters())
        for name, parameter in entry.named_parameters():
            tensors.setdefault(parameter, name)
        placed.update((buffer, None) for buffer in entry.buffers() if isinstance(buffer, geoopt.ManifoldTensor))
    for tensor in tensors:
        if not tensor.is_leaf:
            raise ValueError(
                f"parameter {tensors[tensor] or tuple(tensor.shape)} is a result of a computation, not a leaf: an "
                "optimiser steps leaves only"
            )
    known = {parameter for manifold in manifolds for parameter in manifold.parameters()}
    manifolds.update(dict.fromkeys(_owners([tensor for tensor in bare if tensor not in known])))
    placed.update((tensor, None) for tensor in tensors if isinstance(tensor, geoopt.ManifoldTensor))
    for point in placed:
        for module in point.manifold.modules():
            if isinstance(module, geoopt.Manifold):
                manifolds.setdefault(module)
    curvatures = dict.fromkeys(parameter for manifold in manifolds for parameter in manifold.parameters())
    if distributed:
        _refuse_unsynchronised(curvatures, submodule_curvatures)
    roles = Roles(curvatures=list(curvatures), manifolds=list(manifolds), placed=list(placed))
    for tensor, given_name in tensors.items():
        if tensor in curvatures:
            continue
        if isinstance(tensor, geoopt.ManifoldTensor):
            _refuse_without_gradient(tensor)
            roles.points.append(tensor)
        else:
            if given_name is not None and given_name.rsplit(".", 1)[-1] in _CURVATURE_NAMES:
                raise ValueError(
                    f"parameter {given_name!r} is a curvature by its name, but no manifold holds it (any more): "
                    "give the module itself (not its named_parameters()), or the manifold beside the parameters"
                )
            roles.weights.append(tensor)
    if not tensors and not curvatures:
        raise ValueError("nothing to optimise: what was given has no parameters")
    return roles


def _owners(tensors: list[Tensor]) -> list[geoopt.Manifold]:
    """The manifolds whose own parameters are among ``tensors``, in the order of these.

    A parameter does not know its module, and one that did (a class or an attribute of its own) would forget it in
    copies and moves, and never be geoopt's. So every manifold that is alive is asked: a tenth of a second, once.
    """
    places = {
        id(tensor): place for place, tensor in enumerate(tensors) if not isinstance(tensor, geoopt.ManifoldTensor)
    }
    if not places:
        return []
    found: list[tuple[int, int, geoopt.Manifold]] = []
    for thing in gc.get_objects():
        if issubclass(type(thing), geoopt.Manifold):  # isinstance may run code of proxy objects
            own = [places[id(p)] for p in vars(thing).get("_parameters", {}).values() if id(p) in places]
            if own:
                found.append((min(own), len(found), thing))
    return [manifold for *_, manifold in sorted(found)]


def _refuse_unsynchronised(curvatures: Iterable[Tensor], synchronised: set[Tensor]) -> None:
    lost = [curvature for curvature in curvatures if curvature.requires_grad and curvature not in synchronised]
    if lost:
        raise ValueError(
            f"{len(lost)} learnable curvature(s) belong to a manifold that hangs on a ManifoldParameter only: "
            "DistributedDataParallel does not see it and the processes would drift apart; make the manifold an "
            "attribute of the module (self.manifold = manifold) before wrapping it"
        )


def _refuse_without_gradient(point: geoopt.ManifoldParameter) -> None:
    """A manifold that cannot turn a gradient into a Riemannian one is refused now, not in the first step."""
    with torch.no_grad():
        try:
            point.manifold.egrad2rgrad(point.detach(), torch.zeros_like(point))
        except (TypeError, NotImplementedError) as error:
            raise TypeError(
                f"a point of shape {tuple(point.shape)} lies on {point.manifold}, whose egrad2rgrad fails ({error}), "
                "so that no Riemannian step can be taken: implement egrad2rgrad(x, u) on the manifold"
            ) from error
