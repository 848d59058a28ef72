"""Reads a text by the tables of a grammar: a contextual lexer and an LALR(1) automaton that build trees with places.

The tables are plain lists and dicts, made once of what lark works out for a grammar (`kit.text`), so that a filter
reads its text without importing lark. Trees are shaped as lark shapes them: `?rule` gives way to a single child,
`_rule` to its children, tokens without a name are left out, `[x]` that is absent is None. What does not fit is the
caller's to explain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

FORMAT = 1  # of the tables; part of the name under which they are kept


class Unfit(Exception):
    """The text is not of the grammar."""


class Token(str):
    """A word of the text: `type` is its terminal, `start_pos` and `end_pos` count characters from 0, lines and columns
    from 1."""

    __slots__ = ("type", "start_pos", "end_pos", "line", "column")
    type: str
    start_pos: int
    end_pos: int
    line: int
    column: int


class Tree:
    """A rule with what it was made of. Its place is that of its first and last token, those that are left out
    included; `empty` where it has none."""

    __slots__ = ("data", "children", "start_pos", "end_pos", "line", "column", "outer", "outer_end")
    data: str
    children: list[Any]

    def __init__(self, data: str, children: list[Any]):
        self.data, self.children = data, children
        self.start_pos = self.end_pos = self.line = self.column = -1
        # (start, line, column) and end with the brackets that a `?rule` took away around it
        self.outer: tuple[int, int, int] | None = None
        self.outer_end = -1

    @property
    def meta(self) -> Tree:
        """Where the tree is: itself."""
        return self

    @property
    def empty(self) -> bool:
        """Whether it has no place."""
        return self.start_pos < 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and self.data == other.data and self.children == other.children

    def __hash__(self) -> int:
        return hash((self.data, tuple(self.children)))

    def __repr__(self) -> str:
        return f"Tree({self.data!r}, {self.children!r})"

    def iter_subtrees(self) -> Iterator[Tree]:
        """The tree and every tree in it."""
        yield self
        for child in self.children:
            if isinstance(child, Tree):
                yield from child.iter_subtrees()


class Reader:
    """The automaton of one grammar. `tables`: what `tables_of` made."""

    def __init__(self, tables: dict[str, Any]):
        self._terminals: list[list[str]] = tables["terminals"]
        self._scanners: list[list[int]] = tables["scanners"]
        self._matches: list[Any] = [None] * len(self._scanners)
        self._words: list[dict[str, dict[str, str]]] = tables["words"]
        self._ignored = frozenset(tables["ignored"])
        self._broken = frozenset(tables["broken"])
        self._scanner_of: list[int] = tables["scanner_of"]
        self._actions: list[dict[str, int]] = tables["actions"]
        self._rules = [(*r[:4], r[4] and [tuple(part) for part in r[4]], r[5]) for r in tables["rules"]]
        self._starts: dict[str, list[int]] = tables["starts"]

    def _match_of(self, scanner: int) -> Any:
        """The scanner of a state; compiled when a text first comes there."""
        terminals = (self._terminals[n] for n in self._scanners[scanner])
        pattern = "|".join(f"(?P<{name}>{regex})" for name, regex in terminals)
        found = self._matches[scanner] = re.compile(pattern).match
        return found

    def parse(self, text: str, start: str) -> Any:
        """The tree of a text, from the rule `start`. Raises Unfit."""
        first, last = self._starts[start]
        actions, scanner_of, matches, words = self._actions, self._scanner_of, self._matches, self._words
        ignored, broken = self._ignored, self._broken
        states, values = [first], []
        position, line, line_start, length = 0, 1, 0, len(text)
        token: Any
        while True:
            here = scanner_of[states[-1]]
            while position < length:
                found = (matches[here] or self._match_of(here))(text, position)
                if found is None:
                    raise Unfit
                kind, end = found.lastgroup, found.end()
                if kind not in ignored:
                    break
                if kind in broken and (count := text.count("\n", position, end)):
                    line, line_start = line + count, text.rindex("\n", position, end) + 1
                position = end
            else:
                kind, token = "$END", None
            if kind != "$END":
                token = Token(text[position:end])
                if kind in words[here]:
                    kind = words[here][kind].get(token, kind)
                token.type, token.start_pos, token.end_pos = kind, position, end
                token.line, token.column = line, position - line_start + 1
                if kind in broken and (count := text.count("\n", position, end)):
                    line, line_start = line + count, text.rindex("\n", position, end) + 1
                position = end
            while True:
                action = actions[states[-1]].get(kind)
                if action is None:
                    raise Unfit
                if action >= 0:
                    states.append(action)
                    values.append(token)
                    break
                self._reduce(~action, states, values)
                if kind == "$END" and states[-1] == last:
                    return values[-1]

    def _reduce(self, number: int, states: list[int], values: list[Any]) -> None:
        """Puts what a rule makes in the place of what it is made of."""
        origin, size, name, gives_way, kept, absent = self._rules[number]
        if size:
            parts = values[-size:]
            del values[-size:], states[-size:]
        else:
            parts = []
        if kept is None:
            children = parts
        else:
            children = []
            for at, is_spliced, before in kept:
                if before:
                    children += [None] * before
                if is_spliced:
                    children += parts[at].children
                else:
                    children.append(parts[at])
            if absent:
                children += [None] * absent
        made = children[0] if gives_way and len(children) == 1 else Tree(name, children)
        if type(made) is Tree:
            _place(made, parts)
        states.append(self._actions[states[-1]][origin])
        values.append(made)


def _place(made: Tree, parts: list[Any]) -> None:
    for part in parts:
        if type(part) is Token:
            outer = (part.start_pos, part.line, part.column)
        elif part is not None and part.start_pos >= 0:
            outer = part.outer
        else:
            continue
        made.outer = outer
        if made.start_pos < 0:
            made.start_pos, made.line, made.column = outer
        break
    for part in reversed(parts):
        if type(part) is Token:
            end = part.end_pos
        elif part is not None and part.end_pos >= 0:
            end = part.outer_end
        else:
            continue
        made.outer_end = end
        if made.end_pos < 0:
            made.end_pos = end
        break


def tables_of(lark: Any) -> dict[str, Any]:
    """The tables of a grammar that lark has built: LALR, contextual lexer, places, placeholders."""
    from lark.lexer import PatternStr
    from lark.parse_tree_builder import maybe_create_child_filter
    from lark.parsers.lalr_analysis import Shift

    table, lexer = lark.parser.parser._parse_table, lark.parser.lexer
    rules: dict[Any, int] = {}
    shown: list[Any] = []

    def number_of(rule: Any) -> int:
        if rule not in rules:
            rules[rule] = len(shown)
            options = rule.options
            made = maybe_create_child_filter(rule.expansion, options.keep_all_tokens, False, options.empty_indices)
            kept, absent = (None, 0) if made is None else (made.args[0], made.args[1] if len(made.args) > 1 else 0)
            kept = kept and [[part[0], bool(part[1]), part[2] if len(part) > 2 else 0] for part in kept]
            name = rule.alias or options.template_source or rule.origin.name
            gives_way = bool(options.expand1 and not rule.alias)
            shown.append([rule.origin.name, len(rule.expansion), str(name), gives_way, kept, absent])
        return rules[rule]

    named = lark.terminals
    numbered = {t.name: at for at, t in enumerate(named)}
    order = sorted(table.states)
    number = {state: at for at, state in enumerate(order)}
    scanners: list[Any] = []
    words: list[dict[str, dict[str, str]]] = []
    scanner_of = []
    for state in order:
        inner = lexer.lexers[state]
        terminals, unless = inner.scanner.terminals, inner.callback
        scanner = [numbered[t.name] for t in terminals]
        word = {
            name: {t.pattern.value: t.name for t in callback.scanner.terminals} for name, callback in unless.items()
        }
        if any(
            not isinstance(t.pattern, PatternStr) or t.pattern.flags
            for c in unless.values()
            for t in c.scanner.terminals
        ):
            raise AssertionError("a keyword is a plain word")
        at = next((n for n, s in enumerate(scanners) if s == scanner and words[n] == word), len(scanners))
        if at == len(scanners):
            scanners.append(scanner)
            words.append(word)
        scanner_of.append(at)
    actions = [
        {
            str(symbol): number[argument] if action is Shift else ~number_of(argument)
            for symbol, (action, argument) in table.states[state].items()
        }
        for state in order
    ]
    return {
        "terminals": [[t.name, t.pattern.to_regexp()] for t in named],
        "scanners": scanners,
        "words": words,
        "ignored": sorted(lexer.root_lexer.ignore_types),
        "broken": sorted(lexer.root_lexer.newline_types),
        "scanner_of": scanner_of,
        "actions": actions,
        "rules": shown,
        "starts": {name: [number[first], number[table.end_states[name]]] for name, first in table.start_states.items()},
    }
