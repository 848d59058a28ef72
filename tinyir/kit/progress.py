"""Progress on stderr where that is a terminal; nothing elsewhere, so that logs stay clean: a bar for work in counted
steps, and for every command that takes more than two seconds a line that says what it does."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from .work import now

AFTER = 2.0  # seconds of quiet before a command says what it does
EVERY = 0.2  # seconds between two looks at it


@contextmanager
def watching(command: str) -> Iterator[None]:
    """While a command runs: after two seconds, a line with the steps that it is in."""
    if not sys.stderr.isatty():
        yield
        return
    import threading

    done = threading.Event()
    watcher = threading.Thread(target=_watch, args=(command, done), daemon=True)
    _watchers.append((watcher, done))
    watcher.start()
    try:
        yield
    finally:
        hush()


def hush() -> None:
    """Takes the line away: what follows is written itself."""
    while _watchers:
        watcher, done = _watchers.pop()
        done.set()
        watcher.join()


_watchers: list[tuple[Any, Any]] = []


def _watch(command: str, done: Any) -> None:
    start = time.monotonic()
    if done.wait(AFTER):
        return
    from rich.console import Console
    from rich.text import Text

    status = None
    while not done.wait(EVERY):
        if Progress.is_shown:  # a bar says more
            if status is not None:
                status.stop()
                status = None
            continue
        line = Text(f"{command}: {', '.join(now())} ({time.monotonic() - start:.0f} s)")
        if status is None:
            status = Console(stderr=True).status(line)
            status.start()
        else:
            status.update(line)
    if status is not None:
        status.stop()


class Progress:
    """`with Progress("gemm", 20) as bar: bar.advance("64x128 6.4 us")`: `total` steps, and what the last one said."""

    is_shown = False  # by any bar of this process

    def __init__(self, title: str, total: int):
        self._title, self._total = title, total
        self._bar: Any = None

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.fields[said]}"),
            )
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
            Progress.is_shown = True
            time.sleep(2 * EVERY)  # until a line that is there has gone
            self._bar.start()
            self._task = self._bar.add_task(self._title, total=self._total, said="")
        return self

    def advance(self, said: str) -> None:
        """One step is done."""
        if self._bar is not None:
            self._bar.update(self._task, advance=1, said=said)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
            Progress.is_shown = False
