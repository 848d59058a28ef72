"""How JSON is read by kind: each fault with its place, and all of them."""

from __future__ import annotations

from typing import Any

from ..ir.verify import nearest
from ..kit.diag import Diag, Label
from ..kit.phrase import Phrase
from ..kit.span import Span
from .jsontext import Member, Node, Places

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
