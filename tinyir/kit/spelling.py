"""Misspelt words: the edit that puts the word that was meant in the place of one that is not known. A diagnostic says
the word and the words near it as facts; where the text has it, and one of those is clearly what was meant, it gets an
edit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from .diag import Diag, Edit
from .options import nearest
from .phrase import Phrase
from .records import replace
from .span import Span, span_of

WORDS = ("given", "op", "key", "word")  # facts that are a word of a language as it was written
NAMES = ("name", "tensor")  # and a name that the text gives: another one near it may be no mistake
MEANT = ("meant", "near", "known")  # facts that list the words that there are; the first is surely what was meant


def with_edits(diags: Iterable[Diag], text: str, has_names: bool = True) -> list[Diag]:
    """The diagnostics; those about a misspelt word, and if `has_names` those about a misspelt name, have an edit."""
    written = (*WORDS, *NAMES) if has_names else WORDS
    return [d if d.edit is not None else replace(d, edit=edit_of(d, text, written)) for d in diags]


def edit_of(d: Diag, text: str, written: Sequence[str] = (*WORDS, *NAMES)) -> Edit | None:
    """The edit of a misspelt word, or None where nothing like it is known, or the text has it more than once there."""
    meant = next((d.facts[key] for key in MEANT if key in d.facts), None)
    if meant is None or isinstance(meant, Phrase) or d.span is None or not text:
        return None  # a phrase says more than a word: `Pool with mode max`
    candidates = re.findall(r"[\w.\-]*\w", str(meant))
    if not set(d.facts).isdisjoint(NAMES) and set(written).isdisjoint(NAMES):
        return None
    for key in written:
        word = str(d.facts.get(key, "")).rpartition(" ")[2].removeprefix("%")
        if not word or word in candidates:
            continue
        close = candidates[0] if "meant" in d.facts else nearest(word, candidates)
        place = _place(text, d.span, word) if close else None
        if place is not None:
            return Edit(place, close)
    return None


def _place(text: str, span: Span, word: str) -> Span | None:
    """Where a word is in the span, or from its start to the end of its line; None unless it is there once."""
    end = text.find("\n", span.end)
    word = re.escape(word)
    whole = rf"(?<![\w.]){word}(?![\w.])|(?<=\.){word}(?=\()"  # also a method
    for stop in (span.end, end if end >= 0 else len(text)):
        found = list(re.finditer(whole, text[span.start : stop]))
        if len(found) == 1:
            return span_of(text, span.start + found[0].start(), span.start + found[0].end())
        if found:
            return None
    return None


def keywords_meant(
    text: str, start: int, expected: Sequence[str], keywords: Iterable[str]
) -> Iterator[tuple[Span, str]]:
    """Of a text that is wrong at `start`: the word there, where it is like one that is expected, then the word before
    it and the first of the line, where they are like a word of the language; each with that word."""
    here = re.compile(r"[A-Za-z_]\w*").match(text, start)
    if here and (near := nearest(here[0], list(expected))):
        yield span_of(text, start, here.end()), near
    line = text.rfind("\n", 0, start) + 1
    before = list(re.finditer(r"(?<![\w.%])[A-Za-z_]\w*(?![\w.])", text[line:start]))
    known = list(keywords)
    for word in (*before[-1:], *before[:1]):
        if word[0] not in known and (near := nearest(word[0], known)):
            yield span_of(text, line + word.start(), line + word.end()), near
