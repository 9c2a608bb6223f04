"""An interruption that waits until an epoch is finished."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

__all__ = ["Interrupted", "Interruption", "deferred_interrupt"]


class Interrupted(KeyboardInterrupt):
    """Training was asked to stop, and a checkpoint has been written. ``signal`` says by which signal."""

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted by {signal.Signals(number).name}")
        self.signal = number


class Interruption:
    """Whether somebody has asked to stop, and by which signal."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def obey(self) -> None:
        """Raise :class:`Interrupted` if somebody has asked to stop."""
        if self.signal is not None:
            raise Interrupted(self.signal)


@contextlib.contextmanager
def deferred_interrupt() -> Iterator[Interruption]:
    """Ctrl-C and SIGTERM are noted, so that an epoch is finished; the second one interrupts at once."""
    asked = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def handler(number: int, frame: FrameType | None) -> None:
        asked.obey()
        asked.signal = number

    numbers = (signal.SIGINT, signal.SIGTERM)
    previous = [signal.signal(number, handler) for number in numbers]
    try:
        yield asked
    finally:
        for number, before in zip(numbers, previous, strict=True):
            signal.signal(number, before)
