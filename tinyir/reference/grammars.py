"""The page of languages: of each its meaning, its grammar, and what its checker asks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..ir.pipeline import STAGES, language_of
from ..kit.diag import catalogue
from ..kit.phrase import EXPLAIN
from ..kit.text import rules_of
from .page import Section, block, fence, words

_HEADS = {"en": ("Grammar", "What a text must hold"), "ja": ("文法", "テキストが満たすべきこと")}
_STAGE_OF = {"manifest": "cu"}


def sections(lang: str) -> Iterator[Section]:
    """The page in a language."""
    grammar, invariants = _HEADS[lang]
    for name, said in words("grammar")["languages"].items():
        stage = _STAGE_OF.get(name, name)
        asked = _invariants(stage, lang) if stage in STAGES else ""
        yield Section(
            stage,
            block(said[lang], f"**{grammar}**", fence("text", rules_of(name)), asked and f"**{invariants}**", asked),
            (f"grammar.{name}", *([stage] if stage in STAGES else [name])),
            level=2,
        )


def of_word(word: str, lang: str) -> Section | None:
    """The rules that a word is written in, by language, and the diagnostics whose pages write it; None
    where no grammar has it."""
    if not word.isidentifier():
        return None
    written = re.compile(f'"{word}"')
    found = {
        name: [line for line in rules_of(name).split("\n") if written.search(line)]
        for name in words("grammar")["languages"]
    }
    rules = "\n".join("\n".join([f"// {name}", *lines]) for name, lines in found.items() if lines)
    if not rules:
        return None
    told = re.compile(rf"`{word}\b")
    codes = [c for c in sorted(catalogue()) if told.search(EXPLAIN.joinpath(f"{c}.md").read_text(encoding="utf-8"))]
    about = ", ".join(f"{c} {catalogue()[c]['kind']}" for c in codes)
    return Section(word, block(fence("text", rules), about and f"`tiny-explain`: {about}"), (word,))


def _invariants(stage: str, lang: str) -> str:
    """What `check` of a language lists, as its docstring has it; in other languages the codes with their names."""
    said = language_of(stage).check.__doc__ or ""
    if lang == "en":
        lines = said.split("\n\n", 1)[1].rstrip().split("\n")
        return fence("text", "\n".join(line.removeprefix("    ") for line in lines))
    codes = dict.fromkeys(c for c in re.findall(r"\b[EW]\d{4}\b", said) if c in catalogue())
    rows = (f"- [{c}](../../../tinyir/explain/{lang}/{c}.md) {catalogue()[c]['kind']}" for c in codes)
    return "\n".join(rows)
