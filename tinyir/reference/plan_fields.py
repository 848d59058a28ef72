"""The page of plan text: every field, its words, its default, and by family what it takes there."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from ..ir import plan
from ..ir.plan.table import TABLE, Field
from ..ir.plan.words import WORDS
from ..kernels import FAMILIES, family_of
from ..kernels.check.accepted import fields_of
from ..kernels.check.case import Case
from ..kernels.family import Family
from ..kernels.launch import problem_of
from ..kit.records import MISSING
from .page import Section, block, fence, introduction, prose, table, words, words_of


def sections(lang: str) -> Iterator[Section]:
    """The page in a language."""
    yield introduction("plan", "fields", lang)
    for field in TABLE:
        yield Section(field.word, _field(field, lang), (field.word,))
    yield introduction("plan", "families", lang)
    for family in FAMILIES:
        yield Section(family.name, _family(family, lang), (family.name,))


def obeying(field: Field) -> list[str]:
    """The families that obey a field."""
    return [f.name for f in FAMILIES if field.word in ("algo", "tile") or f.obeys(field.word)]


def _labels(lang: str) -> dict[str, str]:
    return {key: said[lang] for key, said in words("pages")["plan"]["labels"].items()}


def _field(field: Field, lang: str) -> str:
    labels = _labels(lang)
    meaning = words_of("plan", field.word, lang, field.meaning)
    default = labels["always"] if field.default is MISSING else f"`{field.text(field.default)}`"
    algos = obeying(field)
    by = labels["all"] if len(algos) == len(FAMILIES) else ", ".join(f"`{name}`" for name in algos) or labels["none"]
    stop = labels["stop"]
    kinds = {"edge": "edge", **{k: k for k in WORDS}}
    known = ", ".join(f"`{w}`" for w in WORDS[kinds[field.word]] if w) if field.word in kinds else ""
    form = f"`{field.word} ...`: {known}" if known else ""
    return block(
        f"{meaning[0].upper()}{meaning[1:]}{stop}",
        form,
        f"{labels['default']}: {default}{stop} {labels['obeyed']}: {by}{stop}",
    )


def _family(family: Family, lang: str) -> str:
    """The first case of a family with what it takes in each field."""
    labels = _labels(lang)
    text = next(iter(family.cases().values()))
    case = _case(text)
    fields = {f.word: f for f in TABLE}
    rows = [(f"[`{word}`](#{word})", f"`{accepts.told(fields[word])}`") for word, accepts in fields_of(case).items()]
    shown = plan.show(plan.parse(text))
    shown = shown[shown.rindex("\nplan ") + 1 :]
    return block(
        words_of("family", family.name, lang, prose(family.problem.__doc__)),
        table([labels["field"], labels["takes"]], rows),
        fence("plan", shown),
    )


@functools.cache
def _case(text: str) -> Case:
    module = plan.parse(text)
    one = module.plans[-1]
    family, program = family_of(one), module.program
    regions = tuple(program.program.region(name) for name in one.regions)
    return Case(one, family, problem_of(family, one, regions, program))
