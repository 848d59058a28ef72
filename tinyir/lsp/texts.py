"""A text in an editor: its language, its faults, its canonical form, and the texts of other stages beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..ir.pipeline import STAGES
from ..kit.diag import Diag, Refused
from ..kit.phrase import Phrase
from ..kit.records import dataclass
from ..kit.spelling import with_edits
from ..kit.text import read_stage
from ..lower import language_of

MODEL = "model"  # the language of models: front-end JSON, Core IR, the graph DSL, NodeId JSON


@dataclass(frozen=True, slots=True)
class Text:
    """A text: `path` where it is kept (empty for none), and the stage that its first line says, else `model`."""

    path: str
    content: str

    @property
    def stage(self) -> str:
        """A stage, or `model`."""
        found = read_stage(self.content.removeprefix("// "))
        return found[1] if found and found[1] in STAGES else MODEL

    @property
    def language(self) -> str:
        """A stage, or the language of a model: `json`, `nodeid`, `coreir` or `dsl`; `json` where that is not known."""
        if self.stage != MODEL:
            return self.stage
        from .. import front

        return front.language_of(self.content) or "json"

    @property
    def lines(self) -> list[str]:
        """Its lines."""
        return self.content.split("\n")


def faults_of(text: Text, is_whole: bool) -> list[Diag]:
    """What is wrong with a text, each with the edit that corrects it where there is one. `is_whole`: also whether what
    it states beside its program is what the program means, which may take a while."""
    try:
        found = _faults(text, is_whole)
    except Refused as fault:
        found = list(fault.diags)
    except RecursionError:
        found = [Diag("E0006", facts={"what": Phrase("nesting")})]
    return with_edits(found, text.content)


def _faults(text: Text, is_whole: bool) -> list[Diag]:
    notes: list[Diag] = []
    if text.stage == MODEL:
        from .. import front

        language = language_of("tiny")
        return [*language.check(front.read(text.content, text.path, notes)), *notes]
    language = language_of(text.stage)
    module: Any = language.parse(text.content)
    found = language.check(module)
    if is_whole and not any(d.is_error for d in found):
        found = [*found, *language.validate(module)]
    return found


def formatted(text: Text) -> str | None:
    """The text in the form that its language prints; None where it cannot be read, or its language prints none."""
    if text.language == "coreir":
        from ..front import coreir as language
    elif text.stage != MODEL:
        language = language_of(text.stage)
    else:
        return None
    try:
        return language.show(language.parse(text.content))
    except Refused:
        return None


def journey_of(text: Text) -> Iterator[Text]:
    """The texts of other stages beside this one: files of its folder that are called as it is but for their ending."""
    if not text.path:
        return
    here = Path(text.path)
    for ending in ("json", *STAGES):
        beside = here.with_suffix(f".{ending}")
        if beside != here and beside.is_file():
            yield Text(str(beside), beside.read_text(encoding="utf-8", errors="replace"))


def word_at(line: str, column: int) -> tuple[int, int] | None:
    """Where the word around a column is in its line: a name with its dots, and the `%` of a value."""
    for found in re.finditer(r"%?\"(?:[^\"\\]|\\.)*\"|%?[A-Za-z_][\w.]*|%\d+", line):
        if found.start() <= column <= found.end():
            inner = found[0].startswith(('"', '%"'))
            return (found.start() + found[0].index('"') + 1, found.end() - 1) if inner else found.span()
    return None
