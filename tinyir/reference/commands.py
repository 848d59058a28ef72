"""The page of commands: of each its options, examples and exit codes. A man page is one of its sections."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

from ..kit.options import EXIT_CODES, Parser, helped
from .page import Section, block, fence, table

_HEADS = {
    "en": ("option", "meaning", "Examples", "Exit codes"),
    "ja": ("オプション", "意味", "例", "終了コード"),
}
EVERY = ("--help", "--version", "--diag", "--lang", "--remarks", "--time", "--print-completion")  # options of all


def sections(lang: str, parsers: Callable[[], dict[str, Parser]]) -> Iterator[Section]:
    """The page in a language; `parsers` gives the options of each command."""
    made = parsers()
    head = _HEADS[lang]
    every = [
        (f"`{name}`", helped(action.help, lang)) for name, action in actions(next(iter(made.values()))) if name in EVERY
    ]
    codes = table(("", ""), [(code, helped(what, lang)) for code, what in EXIT_CODES])
    title = {"en": "Of all commands", "ja": "すべてのコマンドに共通"}[lang]
    yield Section(title, block(table(head[:2], every), f"**{head[3]}**", codes), EVERY, 2)
    for name, parser in made.items():
        own = [(option, action) for option, action in actions(parser) if option not in EVERY]
        rows = [(f"`{_usage(option, action)}`", helped(action.help, lang)) for option, action in own]
        shown = "\n".join(f"{line}    # {helped(what, lang)}" for line, what in parser.examples)
        body = block(helped(parser.description, lang), table(head[:2], rows), f"**{head[2]}**", fence("sh", shown))
        yield Section(name, body, (name, *(f"{name} {option}" for option, _ in own)), 2)


def actions(parser: Parser) -> list[tuple[str, argparse.Action]]:
    """The options of a parser by their longest name, and its arguments by theirs."""
    return [(max(a.option_strings, key=len) if a.option_strings else str(a.metavar), a) for a in parser._actions]


def _usage(option: str, action: argparse.Action) -> str:
    if not action.option_strings or action.nargs == 0:
        return option
    value = "|".join(map(str, action.choices)) if action.choices else action.metavar or action.dest.upper()
    shown = " ".join(value) if isinstance(value, tuple) else str(value)
    return f"{option}[={shown}]" if action.nargs == "?" else f"{option} {shown}"
