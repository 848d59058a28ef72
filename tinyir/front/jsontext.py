"""JSON that remembers where it is: every value and every key keeps its span, at which a reader notes its faults.

Strict JSON (RFC 8259) and stricter: a key comes once in an object, numbers are finite, strings hold whole characters,
nesting is bounded. One pass over the text with one regular expression and a stack of its own, so that depth never meets
Python's.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from typing import Any

from ..ir.unknown import nearest
from ..kit.diag import Diag, Label, Refused
from ..kit.phrase import Phrase
from ..kit.records import dataclass
from ..kit.span import Span

MAX_NESTING = 64
MAX_DIGITS = 300  # of one number

_TOKEN = re.compile(
    r"""[ \t\r\n]*(?:(?P<string>"[^"\\\x00-\x1f]*")|(?P<mark>[{}\[\]:,])|(?P<number>-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.]))"""  # noqa: E501
    r"""|(?P<word>true|false|null)(?!\w)|(?P<escaped>"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*")|(?P<end>\Z))"""
)
_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|(//[^\n]*)')
_WORDS = {"true": True, "false": False, "null": None}


@dataclass(slots=True, eq=False)
class Node:
    """One JSON value at `start:end` of its text: `value` is a dict of Members, a list of Nodes, a str, an int, a float,
    a bool or None."""

    value: Any
    start: int
    end: int

    @property
    def kind(self) -> str:
        """What a reader calls it: an object, a list, a string, a number, true or false, null."""
        return _KINDS[type(self.value)]

    @property
    def plain(self) -> Any:
        """The value without places: dicts, lists and scalars."""
        if isinstance(self.value, dict):
            return {k: m.node.plain for k, m in self.value.items()}
        return [n.plain for n in self.value] if isinstance(self.value, list) else self.value

    def get(self, key: str) -> Node | None:
        """The member called `key` of an object; None when it is absent or this is not an object."""
        member = self.value.get(key) if isinstance(self.value, dict) else None
        return member.node if member is not None else None


@dataclass(slots=True, eq=False)
class Member:
    """A key of an object, where it is, and its value."""

    start: int
    end: int
    node: Node


_KINDS = {
    dict: Phrase("an object"),
    list: Phrase("a list"),
    str: Phrase("a string"),
    int: Phrase("a number"),
    float: Phrase("a number"),
    bool: Phrase("true or false"),
    type(None): "null",
}


class Places:
    """Offsets of one text as Spans; the starts of the lines are found once."""

    def __init__(self, text: str):
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]

    def span(self, start: int, end: int) -> Span:
        """The Span of `text[start:end]`."""
        line = bisect_right(self._starts, start)
        return Span(start, end, line, start - self._starts[line - 1] + 1)

    def of(self, place: Node | Member) -> Span:
        """The span of a value or of a key."""
        return self.span(place.start, place.end)


def without_comments(text: str) -> str:
    """The text with blanks for its `//` comments, so that everything else stays where it is."""
    return _COMMENT.sub(lambda found: " " * len(found[0]) if found[1] else found[0], text)


def parse_json(text: str) -> Node:
    """The value that `text` holds. Raises Refused: E0011 bad JSON, E0012 a key twice, E0013 a number that is not finite
    or too long, E0006 nested too deep; each with its place."""
    stack: list[tuple[Node, str]] = []  # open objects and lists, each with the key that its value will get
    position, wanted, key, key_place = 0, "value", "", (0, 0)
    while True:
        found = _TOKEN.match(text, position)
        if found is None:
            raise _bad_token(text, position, wanted)
        kind, position = found.lastgroup, found.end()
        start = found.start(kind)
        word = found[kind]
        if wanted in ("value", "value or ]"):
            node = _scalar(text, kind, word, start, position)
            if node is None and word in ("{", "["):
                if len(stack) >= MAX_NESTING:
                    raise _fault(
                        "E0006", text, start, position, what=Phrase("JSON nesting (at most {most})", most=MAX_NESTING)
                    )
                node = Node({} if word == "{" else [], start, position)
                if stack:
                    _put(stack[-1][0], key, key_place, node)
                stack.append((node, key))
                wanted = "key or }" if word == "{" else "value or ]"
                continue
            if node is None and not (wanted == "value or ]" and word == "]"):
                raise _fault(
                    "E0011",
                    text,
                    start,
                    position,
                    expected=_WANTED[wanted],
                    found=word or Phrase("the end of the text"),
                )
            if node is not None:
                if not stack:
                    return _closed(text, node, position)
                _put(stack[-1][0], key, key_place, node)
                wanted = "comma"
                continue
        elif wanted in ("key", "key or }") and kind in ("string", "escaped"):
            key, key_place = _scalar(text, kind, word, start, position).value, (start, position)
            members = stack[-1][0].value
            if key in members:
                first = members[key]
                places = Places(text)
                label = Label(places.of(first), Phrase("first here"))
                raise Refused([Diag("E0012", key, {"key": key}, places.span(start, position), (label,))])
            wanted = "colon"
            continue
        elif wanted == "colon" and word == ":":
            wanted = "value"
            continue
        elif wanted == "comma" and word == ",":
            wanted = "key" if isinstance(stack[-1][0].value, dict) else "value"
            continue
        closing = "}" if isinstance(stack[-1][0].value, dict) else "]"
        if word == closing and wanted in ("comma", "key or }", "value or ]"):
            node, key = stack.pop()
            node.end = position
            if not stack:
                return _closed(text, node, position)
            wanted = "comma"
            continue
        expected = Phrase("`,` or `{closing}`", closing=closing) if wanted == "comma" else _WANTED[wanted]
        raise _fault("E0011", text, start, position, expected=expected, found=word or Phrase("the end of the text"))


_WANTED = {
    "value": Phrase("a value"),
    "value or ]": Phrase("a value or `]`"),
    "key": Phrase("a key in double quotes"),
    "key or }": Phrase("a key in double quotes or `}}`"),
    "colon": "`:`",
}
# what other languages have, with what JSON has in its place
_OTHERWISE = {
    "'": Phrase("a string in double quotes"),
    "/": Phrase("JSON, which has no comments"),
    "#": Phrase("JSON, which has no comments"),
    "True": "`true`",
    "False": "`false`",
    "None": "`null`",
}


def _put(parent: Node, key: str, key_place: tuple[int, int], node: Node) -> None:
    if isinstance(parent.value, dict):
        parent.value[key] = Member(*key_place, node)
    else:
        parent.value.append(node)


def _closed(text: str, node: Node, position: int) -> Node:
    found = _TOKEN.match(text, position)
    if found is None or found.lastgroup != "end":
        start = position + len(text[position:]) - len(text[position:].lstrip(" \t\r\n"))
        raise _fault("E0011", text, start, start + 1, expected=Phrase("the end of the text"), found=text[start])
    return node


def _scalar(text: str, kind: str | None, word: str, start: int, end: int) -> Node | None:
    if kind == "string":
        return Node(word[1:-1], start, end)
    if kind == "escaped":
        value = json.loads(word)
        if any("\ud800" <= c <= "\udfff" for c in value):
            raise _fault(
                "E0011", text, start, end, expected=Phrase("whole characters"), found=Phrase("half of a surrogate pair")
            )
        return Node(value, start, end)
    if kind == "word":
        return Node(_WORDS[word], start, end)
    if kind == "number":
        if len(word) > MAX_DIGITS:
            raise _fault("E0013", text, start, end, given=word[:20] + "...")
        value = int(word) if word.lstrip("-").isdigit() else float(word)
        if isinstance(value, float) and math.isinf(value):
            raise _fault("E0013", text, start, end, given=word)
        return Node(value, start, end)
    return None


def _bad_token(text: str, position: int, wanted: str) -> Refused:
    start = position + len(text[position:]) - len(text[position:].lstrip(" \t\r\n"))
    word = re.compile(r"-?\w[\w.+-]*|.", re.S).match(text, start)[0]
    if word.lstrip("-+") in ("NaN", "Infinity", "nan", "inf"):
        return _fault("E0013", text, start, start + len(word), given=word)
    if word == '"':
        line = text.find("\n", start)
        end = len(text) if line < 0 else line
        return _fault(
            "E0011",
            text,
            start,
            end,
            expected=Phrase("a string that ends on its line, with legal escapes"),
            found=text[start : min(end, start + 20)],
        )
    return _fault(
        "E0011", text, start, start + len(word), expected=_OTHERWISE.get(word) or _WANTED.get(wanted, "`,`"), found=word
    )


def _fault(code: str, text: str, start: int, end: int, **facts: Any) -> Refused:
    return Refused([Diag(code, "", facts, Places(text).span(start, end))])


def items_of(node: Node | None) -> list[Node]:
    """The elements of a list; nothing of anything else."""
    return node.value if node is not None and isinstance(node.value, list) else []


_KIND_WORDS = {dict: Phrase("an object"), list: Phrase("a list"), str: Phrase("a string"), int: Phrase("an integer")}


class Reader:
    """One text. Faults are collected; what follows a fault is read as far as it makes sense."""

    def __init__(self, text: str):
        self.places = Places(text)
        self.faults: list[Diag] = []

    def fault(
        self, code: str, place: Node | Member | Span | None, at: str = "", labels: tuple[Label, ...] = (), **facts: Any
    ) -> None:
        """Note a diagnostic."""
        span = place if isinstance(place, Span) or place is None else self.places.of(place)
        self.faults.append(Diag(code, at, facts, span, labels))

    def expect(self, node: Node | None, kind: type, what: str, parent: Node | None = None, key: str = "") -> Any:
        """The value of `node` when it is of `kind`; else its empty value, and a fault: E0110 another kind, E0104
        missing from `parent`."""
        if node is None:
            if parent is not None:
                self.fault(
                    "E0104", self.places.span(parent.start, parent.start + 1), what, key=key, kind=_KIND_WORDS[kind]
                )
        elif type(node.value) is kind and node.value != "":
            return node.value
        else:
            self.fault(
                "E0110",
                node,
                what,
                key=key or what,
                expected=_KIND_WORDS[kind],
                given=Phrase("an empty one") if node.value == "" else node.kind,
            )
        return kind()

    def only(self, node: Node, known: tuple[str, ...], what: str) -> None:
        """E0102 for every key that is not known."""
        for key, member in node.value.items():
            if key not in known:
                self.fault("E0102", member, what, key=key, known=", ".join(nearest(key, known) or known))
