"""A run is a folder: what was asked, what happened epoch by epoch, what came out, and how to go on."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar, overload

import msgspec
import torch
from torch import Tensor

from hgeo._files import append_lines, check_folders, write_atomically
from hgeo.train._lock import LOCK, locked
from hgeo.train._schema import Metrics, Result, RunConfig, parse_json, read_json, read_record, read_scores, text_of

__all__ = ["DamageError", "RunFolder", "TrainingWarning", "load_state", "plain", "save_state", "write_json"]

_T = TypeVar("_T")


class DamageError(ValueError):
    """A file of a run has lost what it held."""


class TrainingWarning(UserWarning):
    """Training goes on, but something about it needs attention; the message says what and what to try."""


class RunFolder:
    """``config.json``, ``metrics.jsonl``, ``result.json``, ``model.safetensors``, ``checkpoint/``, and pictures.

    Every file appears whole or not at all (it is written beside its place and moved there), except ``metrics.jsonl``,
    which grows by a line an epoch; a last line that was cut off by a crash is ignored when read. Weights are
    safetensors, everything else is JSON: opening somebody's run folder runs none of their code. Nothing is written or
    removed through a link inside the folder; ``path`` itself may be one.

    >>> import tempfile
    >>> run = RunFolder(tempfile.mkdtemp())
    >>> run.write_config(RunConfig("karate", "hat", "ball:2"))
    >>> run.config().model, run.is_complete
    ('hat', False)
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser()
        self._newest_is_whole = True  # of the checkpoints: a damaged one takes the place of none that is whole

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"

    @property
    def is_run(self) -> bool:
        """Whether a run was started here."""
        return (self.path / "config.json").is_file()

    @property
    def is_complete(self) -> bool:
        """Whether a run was finished here."""
        return (self.path / "result.json").is_file()

    @property
    def has_checkpoint(self) -> bool:
        """Whether a run left a checkpoint here, damaged or not."""
        return any(file.is_file() for file in self._checkpoints)

    @property
    def _checkpoints(self) -> tuple[Path, Path]:
        """The newest one, and the one before it."""
        return self.path / "checkpoint" / "state.safetensors", self.path / "checkpoint" / "previous.safetensors"

    def discard(self) -> None:
        """Remove what an unfinished run has written, and the folder if nothing else is in it."""
        inner = self._checkpoints[0].parent
        check_folders(inner, inside=self.path)
        for file in (*self._checkpoints, *(self.path / name for name in ("metrics.jsonl", "config.json", LOCK))):
            file.unlink(missing_ok=True)
        for folder in (inner, self.path):
            with contextlib.suppress(OSError):
                folder.rmdir()

    def write_config(self, config: Any) -> None:
        write_json(self.path / "config.json", config)

    @overload
    def config(self) -> RunConfig: ...

    @overload
    def config(self, kind: type[_T]) -> _T: ...

    def config(self, kind: type = RunConfig) -> Any:
        """What ``config.json`` holds, as a ``kind``."""
        return read_record(self.path / "config.json", kind)

    def write_result(self, result: dict[str, Any]) -> None:
        write_json(self.path / "result.json", result)

    def result(self) -> dict[str, Any]:
        """What ``result.json`` holds."""
        file = self.path / "result.json"
        return read_scores(read_json(file), Result, str(file))

    def write_weights(self, state: dict[str, Tensor]) -> None:
        save_state(self.path / "model.safetensors", dict(state))

    def weights(self) -> dict[str, Tensor]:
        """The weights of the best epoch.

        Raises:
            FileNotFoundError: there are none yet.
            DamageError: they are lost, or damaged.
        """
        file = self.path / "model.safetensors"
        if self.has_checkpoint and not self.is_complete and not file.exists():
            raise FileNotFoundError(
                f"the run in {self.path} is not finished, so it has no weights yet; finish it with hgeo train --resume"
            )
        try:
            loaded: dict[str, Tensor] = load_state(file)
        except (DamageError, FileNotFoundError) as error:
            raise DamageError(f"{error}; hgeo train --resume writes it anew from the checkpoint") from error
        return loaded

    def write_checkpoint(self, state: dict[str, Any]) -> None:
        """Write a checkpoint; the one before it stays beside it, in case that this one gets damaged."""
        newest, previous = self._checkpoints
        content = _packed(state)
        check_folders(newest.parent, inside=self.path)
        if self._newest_is_whole and newest.is_file() and not newest.is_symlink():
            os.replace(newest, previous)
        self._newest_is_whole = True
        write_atomically(newest, content, inside=self.path)

    def checkpoint(self) -> dict[str, Any]:
        """The newest checkpoint, or if that is damaged, with a warning, the one before it."""
        newest, previous = self._checkpoints
        try:
            found: dict[str, Any] = load_state(newest)
            return found
        except (DamageError, FileNotFoundError) as error:
            try:
                found = load_state(previous)
            except (DamageError, FileNotFoundError):
                raise DamageError(f"{error}; delete its folder to begin the run anew") from error
            warnings.warn(f"{error}; going on from the checkpoint before it", TrainingWarning, stacklevel=2)
            self._newest_is_whole = False
            return found

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of ``metrics.jsonl``, one a finished epoch."""
        file = self.path / "metrics.jsonl"
        lines = text_of(file).splitlines(keepends=True) if file.is_file() else []
        if lines and not lines[-1].endswith("\n"):
            lines.pop()  # cut off by a crash
        rows: list[dict[str, Any]] = []
        for number, line in enumerate(lines, 1):
            where = f"{file} line {number}"
            rows.append(read_scores(parse_json(line, where), Metrics, where))
            if _drawn(rows[-1]) != _drawn(rows[0]):
                raise ValueError(f"{where} has other scores or curvatures than line 1")
        return rows

    @contextlib.contextmanager
    def log(self, *, keep: int = 0) -> Iterator[Callable[[dict[str, Any]], None]]:
        """A function that appends a line to ``metrics.jsonl``, which first is cut to its first ``keep`` epochs."""
        with locked(self.path):
            kept = self.metrics()[:keep]
            if len(kept) < keep:
                file = self.path / "metrics.jsonl"
                problem = f"{file} has {len(kept)} lines of {keep} epochs; the curves of the run have a gap"
                warnings.warn(problem, TrainingWarning, stacklevel=3)
            text = "".join(json.dumps(plain(row)) + "\n" for row in kept)
            write_atomically(self.path / "metrics.jsonl", text)
            with append_lines(self.path / "metrics.jsonl") as append:
                yield lambda row: append(json.dumps(plain(row)))


def _drawn(row: dict[str, Any]) -> tuple[set[str], int]:
    """What each line of the metrics has."""
    return {name for name in row if name.startswith("val_")}, len(row.get("curvatures", ()))


def write_json(path: Path, value: Any, *, inside: Path | None = None) -> None:
    """Write JSON so that a reader sees the old file or the new one, never half of it."""
    text = json.dumps(plain(value), indent=2, sort_keys=False) + "\n"
    write_atomically(path, text, inside=inside)


def save_state(path: Path, state: Any, *, inside: Path | None = None) -> None:
    """Save nested dicts, lists, tuples, numbers, strings and tensors as one safetensors file, nothing pickled."""
    write_atomically(path, _packed(state), inside=inside)


def _packed(state: Any) -> bytes:
    from safetensors.torch import save

    tensors: dict[str, Tensor] = {}
    skeleton = _take_apart(state, tensors)
    head = {"sha256": _digest(skeleton, tensors), "state": skeleton}  # under one name: several come in any order
    return save(tensors, metadata={"hgeo": json.dumps(head)})


def _digest(skeleton: Any, tensors: dict[str, Tensor]) -> str:
    """Of everything that a file of :func:`save_state` holds: disks lose bits, and a weight with one off is a weight."""
    digest = hashlib.sha256(json.dumps(skeleton).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def load_state(path: Path) -> Any:
    """What :func:`save_state` saved; a plain safetensors file gives its flat dict of tensors."""
    from safetensors import safe_open

    if not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    try:
        with safe_open(str(path), framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dict)
        if set(metadata) <= {"format"}:
            return tensors
        if set(metadata) != {"hgeo"}:
            raise ValueError("its head is not what hgeo writes")
        head = json.loads(metadata["hgeo"])
        if "sha256" not in head:  # edition 0.1 wrote none
            return _put_together(head, tensors)
        if set(head) != {"sha256", "state"} or head["sha256"] != _digest(head["state"], tensors):
            raise ValueError("its checksum is another")
        return _put_together(head["state"], tensors)
    except Exception as error:  # whatever a file that is cut off or overwritten raises inside safetensors
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise DamageError(f"{path} is damaged ({reason})") from error


def _take_apart(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        key = f"t{len(tensors)}"
        # a copy: tensors that share memory (tied weights) must not share it in the file
        tensors[key] = value.detach().cpu().contiguous().clone()
        return {"tensor": key}
    if isinstance(value, dict):
        return {"dict": [[key, _take_apart(item, tensors)] for key, item in value.items()]}
    if isinstance(value, (list, tuple)):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [_take_apart(item, tensors) for item in value]}
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"value": value}
    raise TypeError(f"cannot save a {type(value).__name__}; expected dicts, lists, numbers, strings and tensors")


def _put_together(skeleton: dict[str, Any], tensors: dict[str, Tensor]) -> Any:
    ((kind, content),) = skeleton.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "dict":
        return {key: _put_together(item, tensors) for key, item in content}
    if kind in ("list", "tuple"):
        items = [_put_together(item, tensors) for item in content]
        return tuple(items) if kind == "tuple" else items
    return content


def plain(value: Any) -> Any:
    """JSON has no NaN and no infinity; they become null."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, (torch.dtype, torch.device, Path)):
        return str(value)
    if isinstance(value, msgspec.Struct) or dataclasses.is_dataclass(value):
        return plain(msgspec.to_builtins(value))
    return value
