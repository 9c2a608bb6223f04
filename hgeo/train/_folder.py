"""A run is a folder: what was asked, what happened epoch by epoch, what came out, and how to go on."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar, overload

import msgspec
import torch
from torch import Tensor

from hgeo._files import append_lines, check_folders, write_atomically
from hgeo.train._schema import Metrics, Result, RunConfig, parse_json, read_json, read_record, read_scores, read_text

__all__ = ["RunFolder", "load_state", "plain", "save_state", "write_json"]

_T = TypeVar("_T")


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
        return self._checkpoint.is_file()

    @property
    def _checkpoint(self) -> Path:
        return self.path / "checkpoint" / "state.safetensors"

    def discard(self) -> None:
        """Remove what an unfinished run has written, and the folder if nothing else is in it."""
        check_folders(self._checkpoint.parent, inside=self.path)
        for file in (self._checkpoint, self.path / "metrics.jsonl", self.path / "config.json"):
            file.unlink(missing_ok=True)
        for folder in (self._checkpoint.parent, self.path):
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
        if self.has_checkpoint and not (self.path / "model.safetensors").exists():
            raise FileNotFoundError(
                f"the run in {self.path} is not finished, so it has no weights yet; finish it with hgeo train --resume"
            )
        loaded: dict[str, Tensor] = load_state(self.path / "model.safetensors")
        return loaded

    def write_checkpoint(self, state: dict[str, Any]) -> None:
        save_state(self._checkpoint, state, inside=self.path)

    def checkpoint(self) -> dict[str, Any]:
        try:
            loaded: dict[str, Any] = load_state(self._checkpoint)
        except ValueError as error:
            raise ValueError(f"{error}; delete it to begin the run anew") from error
        return loaded

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of ``metrics.jsonl``, one a finished epoch."""
        file = self.path / "metrics.jsonl"
        lines = read_text(file).splitlines(keepends=True) if file.is_file() else []
        if lines and not lines[-1].endswith("\n"):
            lines.pop()  # cut off by a crash
        return [
            read_scores(parse_json(line, f"{file} line {number}"), Metrics, f"{file} line {number}")
            for number, line in enumerate(lines, 1)
        ]

    @contextlib.contextmanager
    def log(self, *, keep: int = 0) -> Iterator[Callable[[dict[str, Any]], None]]:
        """A function that appends a line to ``metrics.jsonl``, which first is cut to its first ``keep`` epochs."""
        kept = self.metrics()[:keep]
        text = "".join(json.dumps(plain(row)) + "\n" for row in kept)
        write_atomically(self.path / "metrics.jsonl", text)
        with append_lines(self.path / "metrics.jsonl") as file:

            def append(row: dict[str, Any]) -> None:
                file.write(json.dumps(plain(row)) + "\n")
                file.flush()

            yield append


def write_json(path: Path, value: Any, *, inside: Path | None = None) -> None:
    """Write JSON so that a reader sees the old file or the new one, never half of it."""
    text = json.dumps(plain(value), indent=2, sort_keys=False) + "\n"
    write_atomically(path, text, inside=inside)


def save_state(path: Path, state: Any, *, inside: Path | None = None) -> None:
    """Save nested dicts, lists, tuples, numbers, strings and tensors as one safetensors file, nothing pickled."""
    from safetensors.torch import save

    tensors: dict[str, Tensor] = {}
    skeleton = _take_apart(state, tensors)
    content = save(tensors, metadata={"hgeo": json.dumps(skeleton)})
    write_atomically(path, content, inside=inside)


def load_state(path: Path) -> Any:
    """What :func:`save_state` saved; a plain safetensors file gives its flat dict of tensors."""
    from safetensors import safe_open

    if not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    try:
        with safe_open(str(path), framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dict)
        return _put_together(json.loads(metadata["hgeo"]), tensors) if "hgeo" in metadata else tensors
    except Exception as error:  # whatever a file that is cut off or overwritten raises inside safetensors
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(f"{path} is damaged ({reason})") from error


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
