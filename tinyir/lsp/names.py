"""Names in texts: where each is, where it is defined, and what is known of it. A value keeps its name from the model to
CUDA, where its dots become underscores."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..kit.records import dataclass
from .texts import MODEL, Text

WORD = re.compile(r'"(?:[^"\\\n]|\\.)*"|%?[A-Za-z_]\w*(?:\.\w+)*|%\d+')  # quoted: a name with other characters
# what comes before the name where a line of a stage's text defines it
_DEFINES = (
    r"[ \t/]*%?{name}[ \t]*=(?!=)",
    r"[ \t/]*%{name}[ \t]+\[",
    r"[ \t/]*(?:in|out|buffer|workspace|shared|reg|mbarrier)[ \t]+{name}[ \t]*[:\w]",
    r"[ \t/]*(?:tensor_map|let|least|most|choose|pick|cursor|ticket|for)[ \t]+{name}(?![\w.])",
    r"[ \t/]*(?:region|block|plan|kernel|launch|program)[ \t]+{name}(?![\w.])",
    r"from[ \t]+{name}[ \t]*:",
)
# the same for the languages of models, anywhere in a line
_IN_JSON = (
    r'"name"[ \t]*:[ \t]*"{name}"',
    r'"outputs"[ \t]*:[ \t]*\[[^\]]*"{name}"',
    r'[ \t]*"{name}"[ \t]*:[ \t]*\{{',
)
_IN_MODEL = {
    "json": _IN_JSON,
    "nodeid": _IN_JSON,
    "coreir": (r"^[ \t]*%{name}[ \t]*=", r'\bname[ \t]*=[ \t]*"{name}"', r"\b{name}[ \t]*=[ \t]*%"),
    "dsl": (
        r"^[ \t]*%?{name}[ \t]*=(?!=)",
        r"[(,][ \t]*{name}[ \t]*:",
        r"\b(?:graph|model|sym)(?:<[^>]*>)?[ \t]+{name}(?![\w.])",
    ),
}


@dataclass(frozen=True, slots=True)
class Place:
    """A word of a text: its line and columns, from 0."""

    text: Text
    line: int
    start: int
    end: int


def plain(word: str) -> str:
    """A word without the sign of a value and without quotes."""
    word = word.removeprefix("%")
    return word[1:-1] if word.startswith('"') else word


def places_of(text: Text, name: str) -> Iterator[Place]:
    """Every place of a name in a text. In CUDA its identifiers are the name with underscores."""
    spelt = {name, re.sub(r"\W", "_", name)} if text.stage == "cu" else {name}
    for number, line in enumerate(text.lines):
        for found in WORD.finditer(line):
            if plain(found[0]) in spelt:
                start = found.start() + found[0].index(plain(found[0]))
                yield Place(text, number, start, start + len(plain(found[0])))


def definition_of(text: Text, name: str) -> Place | None:
    """Where a name is defined in a text: by the first of the ways that its language has."""
    if text.stage == "cu":
        entry = re.compile(rf"^{re.escape(re.sub(chr(92) + 'W', '_', name))}\(")
        for number, line in enumerate(text.lines):
            if entry.match(line):
                return Place(text, number, 0, len(name))
    for form in _IN_MODEL[text.language] if text.stage == MODEL else _DEFINES:
        pattern = re.compile(form.format(name=re.escape(name) if text.stage == MODEL else f'"?{re.escape(name)}"?'))
        for number, line in enumerate(text.lines):
            found = pattern.search(line) if text.stage == MODEL else pattern.match(line)
            if found:
                start = line.rindex(name, found.start(), found.end())
                return Place(text, number, start, start + len(name))
    return None


def origin_of(text: Text, line: int) -> str:
    """The `from` line that a line is below: which op of the model it came from."""
    for number in range(min(line, len(text.lines) - 1), -1, -1):
        if text.lines[number].lstrip("/ ").startswith("from ") and " : " in text.lines[number]:
            return text.lines[number].lstrip("/ ").strip()
        if not text.lines[number].strip():
            return ""
    return ""


def facts_of(texts: list[Text], name: str) -> list[str]:
    """What texts say of a name: the line that defines it (with its type), its axes and maps, its region, its op."""
    found: list[str] = []
    for text in texts:
        place = definition_of(text, name)
        if place is None or text.language in ("json", "nodeid", "cu"):
            continue
        lines = [text.lines[place.line].rstrip()]
        if text.stage in ("index", "poly"):
            lines += _entry(text, name)
        origin = origin_of(text, place.line)
        found.append("\n".join([f"# {text.language}", *([origin] if origin else []), *dict.fromkeys(lines)]))
    return found


def _entry(text: Text, name: str) -> list[str]:
    """The entry of the book: axes, `reads` and `from`."""
    head = re.compile(rf'[ \t]*%"?{re.escape(name)}"?[ \t]+\[')
    for number, line in enumerate(text.lines):
        if head.match(line):
            following = text.lines[number + 1 : number + 3]
            return [line.rstrip(), *(n.rstrip() for n in following if n.lstrip().startswith(("reads ", "from ")))]
    return []
