"""Texts that their grammar still reads at most times, with something else wrong: what a rule made is exchanged for what
the same rule made elsewhere, left out, or written twice. Such a text passes the parser and meets the checks."""

from __future__ import annotations

import functools
import random

from tinyir.front import coreir, graphdsl
from tinyir.ir import gpu, index, plan, poly, region, tiny
from tinyir.kit.diag import Refused
from tinyir.kit.text import Grammar

GRAMMARS: dict[str, Grammar] = {
    **{m.STAGE: m.GRAMMAR for m in (tiny, index, poly, region, plan, gpu)},
    "dsl": graphdsl.GRAMMAR,
    "coreir": coreir.GRAMMAR,
}
Pieces = dict[str, tuple[tuple[int, int], ...]]


def language_of(text: str) -> str:
    """The key of the grammar that a text is written in, or nothing."""
    if text.startswith("tinyir "):
        word = text.split("\n", 1)[0].split()[-1]
        return word if word in GRAMMARS else ""
    return "dsl" if text.startswith("graph ") else "coreir" if text.startswith("%") else ""


@functools.lru_cache(maxsize=256)
def pieces_of(text: str) -> Pieces:
    """Where each rule of the text's grammar made something; none of a text that no grammar reads."""
    grammar = GRAMMARS.get(language_of(text))
    if grammar is None:
        return {}
    try:
        tree = grammar.parse(text)
    except Refused:
        return {}
    found: dict[str, set[tuple[int, int]]] = {}
    for part in tree.iter_subtrees():
        if not part.empty and part is not tree:
            found.setdefault(part.data, set()).add((part.start_pos, part.end_pos))
    return {rule: tuple(sorted(places)) for rule, places in sorted(found.items())}


def spliced(text: str, others: tuple[str, ...], draw: random.Random) -> str:
    """The text with one piece changed; `others` are texts of any language that pieces may come from. The text itself
    where no grammar reads it."""
    pieces = pieces_of(text)
    if not pieces:
        return text
    rule = draw.choice(list(pieces))
    start, end = draw.choice(pieces[rule])
    kind = draw.randrange(8)
    if kind == 0:
        return text[:start] + text[end:]
    if kind == 1:
        return text[:end] + text[start:end] + text[end:]
    giver = draw.choice(others) if others and kind < 5 and draw.random() < 0.5 else text
    if language_of(giver) != language_of(text) or rule not in pieces_of(giver):
        giver = text
    low, high = draw.choice(pieces_of(giver)[rule])
    return text[:start] + giver[low:high] + text[end:]
