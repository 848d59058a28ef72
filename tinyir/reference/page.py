"""The pages of the reference, in their order: sections, each found by its names, in two languages, as Markdown."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from ..kit.records import dataclass

LANGUAGES = ("en", "ja")
WORDS = Path(__file__).resolve().parent / "words"


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page: its heading, its Markdown, the names by which `tiny-explain` finds it, and the depth of its
    heading."""

    title: str
    body: str
    names: tuple[str, ...] = ()
    level: int = 3

    @property
    def text(self) -> str:
        """The section with its heading."""
        body = self.body.strip("\n")
        return f"{'#' * self.level} {self.title}\n" + (f"\n{body}\n" if body else "")


@dataclass(frozen=True, slots=True)
class Page:
    """A page: the name of its file, its title by language, and what makes its sections in a language."""

    name: str
    titles: dict[str, str]
    sections: Callable[[str], Iterable[Section]]

    def made(self, lang: str) -> tuple[Section, ...]:
        """The sections in `lang`, made once."""
        return _made(self.name, self.sections, lang)


@functools.cache
def _made(name: str, sections: Callable[[str], Iterable[Section]], lang: str) -> tuple[Section, ...]:
    return tuple(sections(lang))


def text_of(page: Page, lang: str) -> str:
    """A whole page as Markdown."""
    return "\n".join([f"# {page.titles[lang]}\n", *(s.text for s in page.made(lang))])


def page_named(pages: Sequence[Page], name: str) -> Page:
    """The page of a name. Raises KeyError."""
    return {p.name: p for p in pages}[name]


def names(pages: Sequence[Page]) -> dict[str, None]:
    """Every name that `find` knows, in the order of the pages."""
    return dict.fromkeys(name for page in pages for section in page.made("en") for name in section.names)


def find(pages: Sequence[Page], topic: str, lang: str) -> list[tuple[Page, Section]]:
    """The sections of a name: those spelt as `topic` is, else those that differ in upper and lower case."""
    found = [(p, s) for p in pages for s in p.made(lang) if topic in s.names]
    low = topic.lower()
    return found or [(p, s) for p in pages for s in p.made(lang) if low in {n.lower() for n in s.names}]


@functools.cache
def words(name: str) -> dict[str, Any]:
    """A table of `words/`, read once."""
    return tomllib.loads((WORDS / f"{name}.toml").read_text(encoding="utf-8"))


def words_of(table: str, name: str, lang: str, own: str = "") -> str:
    """What a table of `words/` says of a name in a language; else its English, or what the thing says of itself."""
    said = words(table).get(name, {})
    return said.get(lang) or said.get("en") or own


def introduction(page: str, part: str, lang: str) -> Section:
    """A heading of a page with what is said below it."""
    said = words("pages")[page][part]
    return Section(said["title"][lang], said[lang], level=2)


def prose(docstring: str | None) -> str:
    """A docstring as one paragraph."""
    return re.sub(r"\s+", " ", docstring or "").strip()


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; nothing where there are no rows."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    if not lines:
        return ""
    return "\n".join(["| " + " | ".join(head) + " |", "|" + " --- |" * len(head), *lines]) + "\n"


def fence(kind: str, text: str) -> str:
    """A block of code."""
    return f"```{kind}\n{text.rstrip()}\n```\n"


def block(*parts: str) -> str:
    """Paragraphs one after the other, without those that are empty."""
    return "\n".join(part.rstrip("\n") + "\n" for part in parts if part)


def _of(module: str) -> Callable[[str], Iterable[Section]]:
    """The sections of a module, which is imported when they are asked for: each reads tables of a room of its own."""

    def sections(lang: str) -> Iterable[Section]:
        import importlib

        return importlib.import_module(f".{module}", __package__).sections(lang)

    return sections


PAGES: tuple[Page, ...] = (
    Page("json", {"en": "Front-end JSON", "ja": "フロントエンド JSON"}, _of("json_ops")),
    Page("tiny", {"en": "Ops of tiny text", "ja": "tiny テキストの op"}, _of("tiny_ops")),
    Page("languages", {"en": "The languages", "ja": "言語"}, _of("grammars")),
    Page("plan", {"en": "Fields of plans", "ja": "プランのフィールド"}, _of("plan_fields")),
    Page("gpu", {"en": "Statements of gpu text", "ja": "gpu テキストの文"}, _of("gpu_statements")),
    Page("coverage", {"en": "What is read of other languages", "ja": "ほかの言語の対応範囲"}, _of("coverage")),
    Page("diagnostics", {"en": "Diagnostics", "ja": "診断"}, _of("diagnostics")),
)
