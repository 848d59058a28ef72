"""Messages in Japanese hold no English but names, code, and what the user or another program wrote."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from tinyir.kit.diag import Diag
from tinyir.kit.phrase import phrases

# Words that hold an English phrase together; beside another word they are one. Words that the languages of the stages
# also have between others (`for`, `in`, `of`, `at`, `by`, `on`, `and`, `or`, `from`, `to`) are left out.
GLUE = "|".join(
    (
        "a an the is are was were be been not no its it that which who does do did has have had than other another "
        "with without nothing none only more most each every but so where this these those there here same such"
    ).split()
)
ENGLISH = re.compile(rf"(?<![\w`./%\[-])(?:(?:{GLUE}) [a-z]{{3,}}|[a-z]{{3,}} (?:{GLUE}))(?![\w`./\]=<>-])")
QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"")
# The names of rules by which values share a kernel or do not, each with its paragraph in the page of R3401 or R3402.
RULES = ("compute at", "in memory", "no point", "other point", "other rows", "same point", "two folds")
# Nouns that have a Japanese word, unless a text writes them as words (`region` is a stage in region テキスト).
NOUNS = re.compile(
    r"(?<![\w`.%/=-])(?:(?:kernel|mask|card|page|head|plan|region)s?|thread|cost model|copy engine|attention)"
    r"(?![\w`./=(\]-]| の?テキスト| の段| 以降| より前)"
)
# these repeat what a compiler says
REPORTED = ("E1716", "E1721")


def english_in(text: str) -> list[str]:
    """The English words of a message, without what it quotes and without names of rules."""
    for rule in RULES:
        text = re.sub(rf"{rule}(?=[:),])", "", text)
    return ENGLISH.findall(QUOTED.sub(" ", text)) or _phrases_in(QUOTED.sub(" ", text))


def nouns_in(text: str) -> list[str]:
    """English nouns among the Japanese of a sentence that we wrote, without what it quotes and its values."""
    return NOUNS.findall(re.sub(r"\{[^{}]*\}", " ", QUOTED.sub(" ", text)))


def _phrases_in(text: str) -> list[str]:
    """The phrases whose English the text has, as where a phrase was joined to other words as a plain string."""
    found = re.findall(r"[A-Za-z]{3,}", text)
    return [s for s, words, form in _forms() if words <= {*found} and form.search(text)]


@functools.cache
def _forms() -> tuple[tuple[str, frozenset[str], re.Pattern[str]], ...]:
    """Each phrase that has words beside its values, these words, and its English with any values."""
    found = []
    for sentence in phrases():
        pieces = re.split(r"\{[^{}]*\}", QUOTED.sub("{}", sentence))
        words = frozenset(re.findall(r"[A-Za-z]{3,}", " ".join(pieces)))
        if len(words) > 1 or words and len(pieces) > 2:
            form = r"\S(?:.*\S)?".join(map(re.escape, pieces))
            found.append((sentence, words, re.compile(rf"(?<![\w.]){form}(?![\w.])")))
    return tuple(found)


def english_of(diags: Iterable[Diag]) -> list[str]:
    """Each diagnostic whose Japanese has English, with its code."""
    told = [
        (d, text) for d in diags for text in (d.why("ja"), d.suggestion("ja"), *_notes(d)) if d.code not in REPORTED
    ]
    return [f"{d.code}: {text}" for d, text in told if english_in(text)]


def _notes(d: Diag) -> list[str]:
    from tinyir.kit.phrase import told

    return [told(label.note, "ja") for label in d.labels]
