"""Diagnostics as data. Drawing them is `kit.render`; their words are in `explain/catalogue.toml`.

A diagnostic is a code and the facts of one case. The catalogue turns it into English or Japanese, so that the code that
finds a fault states facts only and every message of one kind reads alike. A fact that is words is a `phrase.Phrase`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from .phrase import EXPLAIN, Words, told
from .quote import visible
from .records import dataclass, field, replace
from .span import Span

MOST_SHOWN = 2000  # characters of one fact that a message repeats


@dataclass(frozen=True, slots=True)
class Label:
    """A second place that a diagnostic speaks of, with the words to write beside it."""

    span: Span
    note: str


@dataclass(frozen=True, slots=True)
class Edit:
    """A correction a machine can apply: put `text` in place of `span`."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Diag:
    """One message. `facts` fill the catalogue's sentences; `at` names the value, op or tensor; `span` is the smallest
    faulty place.

    `code` is `E....` (error), `W....` (warning) or `R....` (remark).
    """

    code: str
    at: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    span: Span | None = None
    labels: tuple[Label, ...] = ()
    edit: Edit | None = None

    @property
    def is_error(self) -> bool:
        """Whether it refuses the input; warnings and remarks do not."""
        return self.code.startswith("E")

    @property
    def kind(self) -> str:
        """The catalogue's CamelCase name of this code, such as `BroadcastMismatch`."""
        return entry_of(self.code)["kind"]

    def why(self, lang: str = "en") -> str:
        """What is wrong, in `lang` (`en` or `ja`)."""
        return _fill(entry_of(self.code)["why"], lang, self._words())

    def suggestion(self, lang: str = "en") -> str:
        """What to type to correct it, in `lang`; empty when there is nothing to say, as where no known word is near."""
        if self.facts.get("near") == "nothing like it":
            return ""
        return _fill(entry_of(self.code).get("suggestion", {}), lang, self._words())

    def _words(self) -> Mapping[str, Any]:
        return {"at": self.at, **self.facts}


_OF_MISSING = ("E0104", "E1005")


def used_at(d: Diag, span: Span | None) -> Diag:
    """The diagnostic of two sizes that differ (E1304), where both are of one tensor: at the op that reads it twice,
    `span`, since its declaration shows neither which op that is nor which axes; others as they are."""
    sides = {str(d.facts.get(side, side)).rpartition("[")[0] for side in ("left", "right")}
    if d.code != "E1304" or d.span is None or span is None or len(sides) > 1 or "" in sides:
        return d
    return replace(d, span=span, labels=(*d.labels, Label(d.span, d.facts["right"])))


class Said(Words):
    """What a diagnostic says, as a fact of another."""

    __slots__ = ("diag",)
    diag: Diag

    def __new__(cls, diag: Diag) -> Said:
        """In English as a string."""
        self = super().__new__(cls, diag.why())
        self.diag = diag
        return self

    def __reduce__(self) -> tuple:
        return Said, (self.diag,)

    def told(self, lang: str) -> str:
        """The message in `lang`."""
        return self.diag.why(lang)


class Refused(Exception):
    """The input is at fault. Carries every diagnostic found; the command line prints them and exits with 1. `file` is
    the input's name, where it has one. As a string: for each diagnostic its code, what it is about, why, the place and
    the help."""

    def __init__(self, diags: Iterable[Diag], file: str = ""):
        self.diags = _causes(tuple(diags))
        self.file = file
        super().__init__("; ".join(f"{d.code} {d.at}" for d in self.diags))

    def __reduce__(self) -> tuple:
        return Refused, (self.diags, self.file)  # so that it crosses from one process to another

    def __str__(self) -> str:
        return "\n".join(_told(d, self.file) for d in self.diags)


def refuse(
    code: str,
    at: str = "",
    span: Span | None = None,
    labels: tuple[Label, ...] = (),
    edit: Edit | None = None,
    **facts: Any,
) -> Refused:
    """The exception for one diagnostic: `raise refuse("E1001", at="add", lhs=..., rhs=...)`."""
    return Refused([Diag(code, at, facts, span, labels, edit)])


def _causes(diags: tuple[Diag, ...]) -> tuple[Diag, ...]:
    """The diagnostics without those of attributes that are missing because they are misspelt there (E0102)."""
    missing = {(d.at, d.facts.get("key")) for d in diags if d.code in _OF_MISSING}
    if not missing:
        return diags
    from .options import nearest

    misspelt = [(d.at, d.facts) for d in diags if d.code == "E0102"]
    meant = {(at, nearest(str(facts["key"]), str(facts["known"]).split(", "))) for at, facts in misspelt}
    return tuple(d for d in diags if d.code not in _OF_MISSING or (d.at, d.facts.get("key")) not in meant)


def refuse_all(faults: Collection[Diag]) -> None:
    """Raises Refused with the faults where there are any."""
    if faults:
        raise Refused(faults)


@contextlib.contextmanager
def collecting(faults: list[Diag]) -> Iterator[None]:
    """What is refused inside is among the faults, and what comes after goes on."""
    try:
        yield
    except Refused as fault:
        faults += fault.diags


@functools.cache
def catalogue() -> dict[str, dict[str, Any]]:
    """Every code with its kind and sentences, read once."""
    import tomllib

    return tomllib.loads(EXPLAIN.joinpath("catalogue.toml").read_text(encoding="utf-8"))


def entry_of(code: str) -> dict[str, Any]:
    """The catalogue entry of `code`; a code without one is a fault of ours and raises KeyError."""
    return catalogue()[code]


def _fill(sentences: Mapping[str, str], lang: str, facts: Mapping[str, Any]) -> str:
    sentence = sentences.get(lang) or sentences.get("en", "")
    return sentence.format_map({k: _show(v, lang) for k, v in facts.items()})


def _show(fact: Any, lang: str) -> str:
    if isinstance(fact, (list, tuple)):
        return "[" + ", ".join(_show(f, lang) for f in fact) + "]"
    shown = visible(told(fact, lang))
    return shown if len(shown) <= MOST_SHOWN else shown[:MOST_SHOWN] + "..."


def _told(d: Diag, file: str) -> str:
    lines = [f"{d.code}{f' at {visible(d.at)}' if d.at else ''}: {d.why()}"]
    if d.span is not None:
        lines.append(f"  --> {visible(file) or 'line'}{':' if file else ' '}{d.span}")
    if d.suggestion():
        lines.append(f"  help: {d.suggestion()}")
    return "\n".join(lines)
