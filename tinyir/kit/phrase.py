"""Phrases: the words among the facts of a diagnostic, in every language that messages have.

A fact of a diagnostic is a name, a number, a piece of code, or a phrase: `Phrase("it reduces by {op}, not by SUM",
op=...)`. A phrase is a string, its English sentence, so that all code that knows strings takes it; it also keeps its
sentence and its values, so that a message in another language is whole. The English sentence with its braces is the
name of the phrase; `explain/phrases.toml` has the others under it, and is read for the first message that is not
English.
"""

from __future__ import annotations

import errno
import functools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

EXPLAIN = Path(__file__).resolve().parent.parent / "explain"
# what comes between the items of a list, by language; what is absent is the same in all
_BETWEEN = {"ja": {" and ": " と ", " or ": " または ", "; ": "。"}}


class Words(str):
    """A string, its English, that `told` says in any language."""

    __slots__ = ()

    def __str__(self) -> str:
        return self  # still of its own class, also as the message of an exception

    def told(self, lang: str) -> str:
        """The words in `lang`."""
        raise NotImplementedError


class Phrase(Words):
    """An English sentence with values in its braces, which `told` says in any language. Values that are phrases are
    said in that language too; others are kept as text."""

    __slots__ = ("sentence", "values")
    sentence: str
    values: dict[str, str]

    def __new__(cls, sentence: str, /, **values: Any) -> Phrase:
        """Raises KeyError where `sentence` has a brace without a value."""
        kept = {name: value if isinstance(value, Words) else str(value) for name, value in values.items()}
        self = super().__new__(cls, sentence.format_map(kept))
        self.sentence, self.values = sentence, kept
        return self

    def __reduce__(self) -> tuple:
        return _phrase, (self.sentence, self.values)

    def told(self, lang: str) -> str:
        """The phrase in `lang`; in English where there is no translation."""
        sentence = self.sentence if lang == "en" else phrases().get(self.sentence, self.sentence)
        return sentence.format_map({name: told(value, lang) for name, value in self.values.items()})


class Listing(Words):
    """Items one after another, with `between` (in English) between them."""

    __slots__ = ("between", "items")
    items: tuple[Any, ...]
    between: str

    def __new__(cls, items: Iterable[Any], between: str = ", ") -> Listing:
        """The items keep their order."""
        kept = tuple(items)
        self = super().__new__(cls, between.join(map(str, kept)))
        self.items, self.between = kept, between
        return self

    def __reduce__(self) -> tuple:
        return Listing, (self.items, self.between)

    def told(self, lang: str) -> str:
        """The list in `lang`."""
        return _BETWEEN.get(lang, {}).get(self.between, self.between).join(told(i, lang) for i in self.items)


def told(fact: Any, lang: str) -> str:
    """Any fact as text in `lang`: phrases are translated, the rest is the same in all languages."""
    return fact.told(lang) if isinstance(fact, Words) else str(fact)


def why_of(fault: OSError | ValueError) -> str:
    """Why a file could not be read or written: what the system says, in words that have a translation where the kind of
    fault is a common one."""
    known = {
        errno.ENOENT: Phrase("No such file or directory"),
        errno.EACCES: Phrase("Permission denied"),
        errno.EPERM: Phrase("Operation not permitted"),
        errno.EEXIST: Phrase("File exists"),
        errno.EISDIR: Phrase("Is a directory"),
        errno.ENOTDIR: Phrase("Not a directory"),
        errno.ENOSPC: Phrase("No space left on device"),
        errno.EROFS: Phrase("Read-only file system"),
        errno.ENAMETOOLONG: Phrase("File name too long"),
        errno.EBADF: Phrase("Bad file descriptor"),
        errno.ELOOP: Phrase("Too many levels of symbolic links"),
        errno.EIO: Phrase("Input/output error"),
        errno.EDQUOT: Phrase("Disk quota exceeded"),
        errno.EFBIG: Phrase("File too large"),
    }
    return known.get(getattr(fault, "errno", None) or 0) or getattr(fault, "strerror", None) or str(fault)


@functools.cache
def phrases() -> dict[str, str]:
    """Japanese by English sentence, read once."""
    import tomllib

    return tomllib.loads(EXPLAIN.joinpath("phrases.toml").read_text(encoding="utf-8"))


def _phrase(sentence: str, values: dict[str, str]) -> Phrase:
    return Phrase(sentence, **values)
