"""Texts: the header line, the Lark grammars, and syntax errors with spans.

The only user of lark, with `kit.lalr`. A grammar is built once and its tables are kept in the user's cache as JSON,
named by the sha256 of the grammar files, so that a filter starts fast, imports lark only to say what is wrong with a
text, and never unpickles anything.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

from .diag import Diag, Edit, Refused, refuse
from .kept import keep, kept
from .lalr import FORMAT, Reader, Unfit, tables_of
from .phrase import Phrase
from .span import Span, span_of

VERSION = "1.0"  # of the texts whose language states none of its own
HEADER = re.compile(r"tinyir ([0-9]{1,9})\.([0-9]{1,9}) ([a-z]+)[ \t]*(?:\n|$)")
MAX_TEXT = 1 << 28  # bytes; a text beyond this is refused rather than read for an hour
MAX_DIGITS = 300  # of one number: as many as the largest double has, and far fewer than Python refuses to read


# characters between two commas or ends of lines: longer expressions are nobody's, and take minutes to read
MOST_UNBROKEN = 1 << 16
_UNBROKEN = re.compile(rf"[^,\n]{{{MOST_UNBROKEN}}}")

_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_COUNT = re.compile(r"[0-9]{1,18}")


def is_word(text: str) -> bool:
    """Whether `text` is the name of a symbol or an axis, without dots; a shortcut past the parser."""
    return _WORD.fullmatch(text) is not None


def is_count(text: str) -> bool:
    """Whether `text` is an integer that needs no parser; longer ones are the grammars' to judge."""
    return _COUNT.fullmatch(text) is not None


def show_list(items: Iterable[Any]) -> str:
    """`[a, b]`: a list as all texts have it."""
    return f"[{', '.join(map(str, items))}]"


def header(stage: str, version: str = VERSION) -> str:
    """The first line of every text of `stage`, whose language is of `version`."""
    return f"tinyir {version} {stage}\n"


def decode(raw: bytes, wants: str) -> str:
    """The bytes of an input as text. `wants` says what it should be, for the message. Raises Refused (E0001 empty,
    E0006 too large, E0007 not UTF-8)."""
    if len(raw) > MAX_TEXT:
        raise refuse("E0006", what=Phrase("the text ({count} bytes; at most {most})", count=len(raw), most=MAX_TEXT))
    try:
        text = raw.decode("utf-8").removeprefix("\ufeff")  # a byte order mark is not part of the text
    except UnicodeDecodeError as fault:
        raise refuse("E0007", offset=fault.start, wants=wants) from None
    if not text.strip():
        raise refuse("E0001", wants=wants)
    return text.replace("\r\n", "\n")


def read_stage(text: str) -> tuple[str, str] | None:
    """`(version, stage)` as the first line says, or None when the text has no header."""
    found = HEADER.match(text)
    return (f"{found[1]}.{found[2]}", found[3]) if found else None


def body_of(text: str, stage: str, version: str = VERSION) -> int:
    """The offset just past the header of a text of `stage`, whose language is of `version`. Raises Refused (E0003 no
    header, E0004 other stage, E0005 newer version, E0016 an older one)."""
    found = HEADER.match(text)
    if not found:
        first = text.split("\n", 1)[0][:60]
        raise Refused(
            [
                Diag(
                    "E0003",
                    facts={"stage": stage, "first": first or Phrase("an empty line"), "version": version},
                    span=span_of(text, 0, len(first)),
                )
            ]
        )
    if found[3] != stage:
        raise Refused(
            [
                Diag(
                    "E0004",
                    facts={"stage": stage, "given": found[3], "hint": ""},
                    span=span_of(text, found.start(3), found.end(3)),
                )
            ]
        )
    given, known = (int(found[1]), int(found[2])), tuple(map(int, version.split(".")))
    if given != known:
        facts = {"given": f"{found[1]}.{found[2]}", "version": version, "stage": stage}
        span = span_of(text, found.start(1), found.end(2))
        raise Refused([Diag("E0005" if given > known else "E0016", facts=facts, span=span)])
    return found.end()


class Grammar:
    """One Lark grammar of `grammars/`, LALR with a contextual lexer.

    `names` says in a reader's words what a terminal is; a syntax error lists the expected ones by these words.
    """

    def __init__(self, name: str, start: str | tuple[str, ...] = "start"):
        self.name = name
        self.starts = (start,) if isinstance(start, str) else start

    @functools.cached_property
    def _reader(self) -> Reader:
        return _reader_of(self.name, self.starts)

    def parse(self, text: str, start: str | None = None, offset: int = 0, whole: str | None = None) -> Any:
        """The tree of `text`. A fault is Refused with E0002 and a span into `whole` (default: `text`), shifted by
        `offset`."""
        if len(text) > MOST_UNBROKEN and (found := _UNBROKEN.search(text)):
            start, end = found.start() + offset, found.start() + offset + 60
            raise refuse(
                "E0006",
                what=Phrase("a word or an expression of more than {most} characters", most=MOST_UNBROKEN),
                span=span_of(whole if whole is not None else text, start, end),
            )
        try:
            return self._reader.parse(text, start or self.starts[0])
        except Unfit:
            raise self._explained(text, start or self.starts[0], offset, whole if whole is not None else text) from None

    def _explained(self, text: str, start: str, offset: int, whole: str) -> Refused:
        """What is wrong with a text that the reader could not read: lark knows what could have been there."""
        from lark.exceptions import UnexpectedInput

        lark = _lark_of(self.name, self.starts)
        try:
            lark.parse(text, start=start)
        except UnexpectedInput as fault:
            return _syntax_error(fault, text, offset, whole, lark, start)
        raise AssertionError(f"lark reads a {self.name} text that its tables do not fit")


def source_of(name: str) -> str:
    """The text of a grammar, after that of the others that it is made with."""
    return _source_of(_grammar_dir(), name)


def rules_of(name: str) -> str:
    """The text of a grammar alone, from its first rule on."""
    lines = (_grammar_dir() / f"{name}.lark").read_text(encoding="utf-8").split("\n")
    return "\n".join(lines[next(i for i, line in enumerate(lines) if line and not line.startswith("//")) :])


def _grammar_dir() -> Path:
    """`grammars/` of the checkout, or the copy that the wheel carries inside the package."""
    packaged = Path(__file__).resolve().parent.parent / "grammars"
    return packaged if packaged.is_dir() else packaged.parent.parent / "grammars"


def _reader_of(name: str, starts: tuple[str, ...]) -> Reader:
    """The reader of a grammar, by the tables that are kept; where there are none, by those that are made now."""
    source = _source_of(_grammar_dir(), name)
    known_as = _name_of("reader", name, [str(FORMAT), repr(starts), source])
    found = kept(known_as)
    if found is not None:
        try:
            return Reader(json.loads(found))
        except Exception:  # noqa: BLE001 - sealed by another program, and no table: it fails anywhere
            pass
    tables = tables_of(_lark_of(name, starts))
    keep(known_as, json.dumps(tables, separators=(",", ":")).encode())
    return Reader(tables)


@functools.lru_cache(maxsize=16)
def _lark_of(name: str, starts: tuple[str, ...]) -> Any:
    """Lark's own parser of a grammar: makes the tables, and says what is wrong with a text."""
    import lark

    source = _source_of(_grammar_dir(), name)
    options: dict[str, Any] = {
        "parser": "lalr",
        "lexer": "contextual",
        "propagate_positions": True,
        "maybe_placeholders": True,
    }
    known_as = _name_of("grammar", name, [lark.__version__, repr(starts), source])
    found = kept(known_as)
    if found is not None:
        try:
            tables, memo = _decode(json.loads(found))
            return lark.Lark._load_from_dict(tables, memo)
        except Exception:  # noqa: BLE001 - as above
            pass
    built = lark.Lark(source, start=list(starts), **options)
    tables, memo = built.memo_serialize([lark.lexer.TerminalDef, lark.grammar.Rule])
    keep(known_as, json.dumps(_encode([tables, memo])).encode())
    return built


def _name_of(kind: str, name: str, parts: list[str]) -> str:
    """What the tables of a grammar are kept under."""
    key = sha256("\0".join(parts).encode()).hexdigest()[:32]
    return f"{kind}-{name}-{key}.json"


def _source_of(folder: Path, name: str) -> str:
    """The grammar with those before it that its first line names: `// with expr, model`."""
    own = (folder / f"{name}.lark").read_text(encoding="utf-8")
    shared = re.match(r"// with ([\w, ]+)\n", own)
    others = [other.strip() for other in shared[1].split(",")] if shared else []
    return "\n".join([*((folder / f"{other}.lark").read_text(encoding="utf-8") for other in others), own])


def _encode(node: Any) -> Any:
    """Lark's tables as JSON: dicts become pair lists, since their keys are ints as well as strings."""
    if isinstance(node, dict):
        return {"d": [[_encode(k), _encode(v)] for k, v in node.items()]}
    if isinstance(node, (list, tuple)):
        return {"t" if isinstance(node, tuple) else "l": [_encode(n) for n in node]}
    if isinstance(node, (set, frozenset)):
        return {"s": sorted(_encode(n) for n in node)}
    return node


def _decode(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    ((tag, inner),) = node.items()
    if tag == "d":
        return {_decode(k): _decode(v) for k, v in inner}
    items = [_decode(n) for n in inner]
    return items if tag == "l" else tuple(items) if tag == "t" else set(items)


def _place_of(fault: Any, text: str) -> int:
    """Where lark stopped in the text."""
    token = getattr(fault, "token", None)
    return min(getattr(fault, "pos_in_stream", None) or getattr(token, "start_pos", None) or 0, len(text))


def _syntax_error(fault: Any, text: str, offset: int, whole: str, lark: Any, rule: str) -> Refused:
    token = getattr(fault, "token", None)
    start = _place_of(fault, text)
    if token is not None and token.type == "$END":
        start = len(text.rstrip())
    if re.compile(rf"%?[0-9]{{{MAX_DIGITS + 1}}}").match(text, start):
        return refuse(
            "E0006",
            what=Phrase("an integer of more than {most} digits", most=MAX_DIGITS),
            span=span_of(whole, start + offset, start + offset + MAX_DIGITS),
        )
    found = Phrase("the end of the text") if start >= len(text.rstrip()) else _word_at(text, start)
    wanted = (
        getattr(fault, "accepts", None) or getattr(fault, "expected", None) or getattr(fault, "allowed", None) or ()
    )
    words = sorted({_terminal_word(t, lark) for t in wanted})
    end = start + (len(found) if start < len(text.rstrip()) else 0)
    span = span_of(whole, start + offset, end + offset)
    facts: dict[str, Any] = {"found": found, "expected": _one_of(words), "hint": ""}
    from .spelling import keywords_meant

    near = keywords_meant(text, start, [w.strip("`") for w in words], _keywords(lark))
    meant = next((one for one in near if _reads_further(text, start, one, lark, rule)), None)
    if meant is None:
        return Refused([Diag("E0002", facts=facts, span=span)])
    facts["hint"] = Phrase("did you mean {word}?", word=meant[1])
    place = span_of(whole, meant[0].start + offset, meant[0].end + offset)
    return Refused([Diag("E0002", facts=facts, span=span, edit=Edit(place, meant[1]))])


def _reads_further(text: str, start: int, meant: tuple[Span, str], lark: Any, rule: str) -> bool:
    """Whether the text, with the word that may be meant, is read beyond its fault."""
    from lark.exceptions import UnexpectedInput

    place, word = meant
    try:
        lark.parse(text[: place.start] + word + text[place.end :], start=rule)
    except UnexpectedInput as fault:
        return _place_of(fault, text) > max(start, place.start) + len(word) - (place.end - place.start)
    return True


def _keywords(lark: Any) -> list[str]:
    """The words of a grammar, of three letters or more: those that are spelt one way, also with what must follow."""
    words = (_terminal_word(t.name, lark).strip("`") for t in lark.terminals if _is_keyword(t))
    return sorted({word for word in words if len(word) > 2 and is_word(word)})


def _is_keyword(terminal: Any) -> bool:
    return type(terminal.pattern).__name__ == "PatternStr" or terminal.name.startswith("_")


def _word_at(text: str, start: int) -> str:
    found = re.compile(r"[%\w.]{1,60}|\S|\s").match(text, start)
    word = found[0] if found else ""
    return Phrase("the end of the line") if word == "\n" else word


def _terminal_word(terminal: str, lark: Any) -> str:
    if terminal in ("_NL", "_NEWLINE"):
        return Phrase("the end of the line")
    if terminal == "$END":
        return Phrase("the end of the text")
    pattern = next((t.pattern for t in lark.terminals if t.name == terminal), None)
    if pattern is not None and type(pattern).__name__ == "PatternStr":
        return f"`{pattern.value}`"
    word = terminal.strip("_").lower()
    if pattern is not None and terminal.startswith("_") and re.match(rf"{word}(?!\w)", pattern.value):
        return f"`{word}`"  # a word of the language, with what must follow it
    return word.replace("_", " ")


def _one_of(words: list[str]) -> str:
    if len(words) > 8:
        words = words[:8] + ["..."]
    return ", ".join(words) or Phrase("nothing more")


def token_span(token: Any, offset: int = 0) -> Span:
    """The Span of a Lark token of a text whose first character is at `offset` of the whole (same line numbering as
    lark's)."""
    return Span(token.start_pos + offset, token.end_pos + offset, token.line, token.column)
