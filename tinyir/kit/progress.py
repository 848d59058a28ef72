"""A progress bar on stderr where that is a terminal; nothing elsewhere, so that logs stay clean."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any


class Progress:
    """`with Progress("gemm", 20) as bar: bar.advance("64x128 6.4 us")`: `total` steps, and what the last one said."""

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
