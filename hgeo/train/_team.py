"""Processes that train one model together; alone, the same calls do nothing."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import os
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

__all__ = ["Team", "TeamError", "team"]

_PATIENCE = datetime.timedelta(minutes=10)  # a process that says nothing for so long is lost


class TeamError(RuntimeError):
    """The processes of a training do not agree, or one of them is lost; the message says which it is."""


class Team:
    """The processes that ``torchrun`` has started and :func:`team` has joined: how many, and which of them this is.

    What a method gives is the same in every process. One that no longer answers is a :class:`TeamError`.

    >>> alone = Team()
    >>> alone.size, alone.is_first, alone.sum(2.0)
    (1, True, 2.0)
    """

    def __init__(self) -> None:
        there = dist.is_available() and dist.is_initialized()
        self.size: int = dist.get_world_size() if there else 1
        self.rank: int = dist.get_rank() if there else 0

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and speaks to the user."""
        return self.rank == 0

    def sum(self, number: float) -> float:
        """The sum of a number over the processes."""
        if self.size == 1:
            return number
        total = torch.tensor([number], dtype=torch.float64)
        with _answered():
            dist.all_reduce(total)
        return float(total)

    def largest(self, number: int) -> int:
        """The largest of a number over the processes."""
        return number if self.size == 1 else int(max(self._all(torch.tensor([number]))))

    def rows(self, own: Tensor) -> Tensor:
        """The rows of all processes, one behind the other."""
        if self.size == 1:
            return own
        counts = [int(count) for count in self._all(torch.tensor([own.shape[0]]))]
        padded = own.new_zeros(max(counts), *own.shape[1:])
        padded[: own.shape[0]] = own
        return torch.cat([part[:count] for part, count in zip(self._all(padded), counts, strict=True)])

    def share(self, items: Tensor) -> Tensor:
        """The part of these items that is this process's; they differ by one at most."""
        return items.tensor_split(self.size)[self.rank]

    def agree(self, what: str, *tensors: Tensor) -> None:
        """Raise :class:`TeamError` unless these tensors have the same bits in every process."""
        if self.size == 1:
            return
        digest = hashlib.blake2b(digest_size=16)
        for tensor in tensors:
            digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        own = torch.frombuffer(bytearray(digest.digest()), dtype=torch.uint8)
        differ = [rank for rank, found in enumerate(self._all(own)) if not torch.equal(found, own)]
        if self.largest(len(differ)):
            others = f" from that of process {', '.join(map(str, differ))}" if differ else " among the others"
            raise TeamError(f"process {self.rank}: {what} differs{others}; training is stopped")

    def answering(self) -> contextlib.AbstractContextManager[None]:
        """Around a backward pass, in which processes wait for each other."""
        return contextlib.nullcontext() if self.size == 1 else _answered()

    def wrapped(self, model: nn.Module) -> nn.Module:
        """The model, whose gradients are averaged over the processes in each backward pass."""
        if self.size == 1:
            return model
        return nn.parallel.DistributedDataParallel(model, broadcast_buffers=False)

    def _all(self, own: Tensor) -> list[Tensor]:
        found = [torch.empty_like(own) for _ in range(self.size)]
        with _answered():
            dist.all_gather(found, own.contiguous())
        return found


@contextlib.contextmanager
def _answered() -> Iterator[None]:
    """A process that does not answer is an error in one sentence."""
    try:
        yield
    except RuntimeError as error:
        raise TeamError(f"another process of this training is lost ({_first_line(error)}); this one stops") from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


@contextlib.contextmanager
def team(device: str = "cpu") -> Iterator[Team]:
    """Joins the processes that ``torchrun`` has started; a process that was started alone is a team of its own.

    They talk by gloo, and by nccl about what is on a GPU; each has the GPU of its number on its machine.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or dist.is_initialized():
        yield Team()
        return
    on_gpu = device.startswith("cuda")
    try:
        if on_gpu:
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo", timeout=_PATIENCE)
    except (RuntimeError, ValueError) as error:
        raise TeamError(f"the processes of this training do not find each other ({_first_line(error)})") from error
    try:
        yield Team()
    finally:
        with contextlib.suppress(RuntimeError):
            dist.destroy_process_group()


def state_of(model: nn.Module) -> list[Any]:
    """Everything about a model that processes have to agree on: its parameters, curvatures among them, and buffers."""
    return [value for value in model.state_dict().values() if isinstance(value, Tensor)]
