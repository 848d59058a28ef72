"""Words that are not known: what each may have meant, for the diagnostics that name them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..kit.phrase import Phrase
from .types import DTYPES

MOST_LISTED = 8
OTHER_NAMES = {"fp16": "half", "i64": "long", "fp8e4m3": "fp8"}  # beside NumPy's and C's


def nearest(word: str, known: Iterable[str]) -> list[str]:
    """Up to three known words that `word` may have meant, or all of a short list."""
    import difflib

    words = list(known)
    close = difflib.get_close_matches(word.upper(), dict.fromkeys(w.upper() for w in words), 3, 0.5)
    return [w for c in close for w in words if w.upper() == c][:3]


def unknown_name(name: str, known: Iterable[str]) -> dict[str, str]:
    """The facts of a name that is not known (E0202, E1605): the words near it, else the first that there are."""
    words = list(known)
    near = ", ".join(nearest(name, words))
    listed = ", ".join([*words[:MOST_LISTED], *(["..."] if len(words) > MOST_LISTED else [])])
    advice = (
        Phrase("near it: {near}", near=near) if near else Phrase("known here: {known}", known=listed) if listed else ""
    )
    return {"name": name, "near": near, "advice": advice}


def dtypes_like(word: str) -> list[str]:
    """The dtypes that a word may have meant: the one that others call so, or those that are spelled alike."""
    named = [d.name for d in DTYPES.values() if word.lower() in (d.numpy, d.cuda, OTHER_NAMES.get(d.name))]
    return named or nearest(word, DTYPES)


def unknown_dtype(word: str, spelled: Callable[[str], str] = str) -> dict[str, Any]:
    """The facts of a word that names no dtype (E0101): those it may have meant, one of them surely, or all."""
    near = [spelled(name) for name in dtypes_like(word)]
    if near:
        advice = Phrase("did you mean {near}?", near=", ".join(near))
    else:
        advice = Phrase("one of {known}", known=", ".join(map(spelled, DTYPES)))
    sure = {"meant": near[0]} if len(near) == 1 else {"near": ", ".join(near)} if near else {}
    return {"given": word, "advice": advice, **sure}
