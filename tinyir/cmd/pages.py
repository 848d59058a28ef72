"""All pages of the reference: those of the tables, and that of the commands, whose options only this room knows."""

from __future__ import annotations

from collections.abc import Iterator

from ..kit.options import Parser
from ..reference import PAGES as OF_TABLES
from ..reference import Page, Section
from ..reference.commands import sections
from . import COMMANDS, command_of


def parsers() -> dict[str, Parser]:
    """The options of each command."""
    return {name: command_of(name).parser() for name in COMMANDS}


def _commands(lang: str) -> Iterator[Section]:
    return sections(lang, parsers)


PAGES: tuple[Page, ...] = (Page("commands", {"en": "Commands", "ja": "コマンド"}, _commands), *OF_TABLES)
