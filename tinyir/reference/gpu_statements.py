"""The page of gpu text: every statement, kernel and launch, as their nodes describe them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import get_args

from ..ir.gpu import nodes
from .page import Section, block, fence, prose, words_of

_INTRO = {
    "en": ("Statements", "A statement is a line; what is further in than its head is its block."),
    "ja": ("文", "1行が1つの文で、先頭より深く字下げされた行がそのブロックになる。"),
}


def word_of(node: type) -> str:
    """The name of a node's entry: its class in lower case, words joined by `_`, which is its keyword where it has
    one."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", node.__name__).lower()


def statements() -> dict[str, type]:
    """Every node of gpu text by the name of its entry."""
    return {word_of(node): node for node in (nodes.Kernel, nodes.Launch, *get_args(nodes.Statement))}


def sections(lang: str) -> Iterator[Section]:
    """The page in a language."""
    yield Section(*_INTRO[lang], level=2)
    rules = _rules()
    for word, node in statements().items():
        said = words_of("gpu", word, lang, prose(node.__doc__))
        yield Section(word, block(said, fence("text", rules[word])), (word,))


def _rules() -> dict[str, str]:
    """The grammar's rule of each statement."""
    from ..kit.text import source_of

    source = source_of("gpu")
    found = {word: re.search(rf"^{_RULES.get(word, word)}: .*(?:\n +\| .*)*", source, re.M) for word in statements()}
    return {word: re.sub(r" +// .*", "", rule[0]) for word, rule in found.items() if rule is not None}


_RULES = {"let": "let_integer", "value": "let"}
