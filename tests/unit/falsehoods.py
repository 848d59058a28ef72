"""False certificates, made of a true one in many small ways: each says something of the text that is not so, or
leaves something unsaid."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

SUM = re.compile(r"^      (?:proven|guarded|so .+?:) ")
ENTRY = re.compile(r"^    \S")


def falsehoods(certificate: str, most: int) -> Iterator[tuple[str, str]]:
    """What was planted, and the certificate with it; `most` of each kind."""
    lines = certificate.splitlines()
    for make in (_dropped, _times, _bounds, _statuses, _swapped, _twice, _heads, _texts, _order, _points):
        kept = 0
        for what, changed in make(lines):
            if kept < most and changed != lines:
                kept += 1
                yield f"{make.__name__.strip('_')}: {what}", "\n".join(changed) + "\n"


def _entries(lines: list[str]) -> Iterator[tuple[int, int]]:
    """Where each obligation begins and ends."""
    starts = [at for at, line in enumerate(lines) if ENTRY.match(line)]
    for at in starts:
        end = at + 1
        while end < len(lines) and lines[end].startswith("      "):
            end += 1
        yield at, end


def _dropped(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    for at, end in _entries(lines):
        yield lines[at], lines[:at] + lines[end:]


def _times(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Another number before a fact."""
    for at, line in enumerate(lines):
        found = re.search(r"(\d+)\*\[[^\]]*[a-z]", line) if SUM.match(line) else None
        if found:
            yield (
                line,
                [*lines[:at], f"{line[: found.start(1)]}{int(found[1]) + 1}{line[found.end(1) :]}", *lines[at + 1 :]],
            )


def _bounds(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Another bound, in what is to be shown and in a fact."""
    for at, line in enumerate(lines):
        if ENTRY.match(line) and ": " in line:
            yield line, [*lines[:at], f"{line} + 1", *lines[at + 1 :]]
        fact = re.search(r"\*\[([^\]]+)\]", line) if SUM.match(line) else None
        if fact:
            yield line, [*lines[:at], f"{line[: fact.end(1)]} + 1{line[fact.end(1) :]}", *lines[at + 1 :]]


def _statuses(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    other = {"proven": "guarded", "guarded": "proven", "listed": "proven"}
    for at, line in enumerate(lines):
        word = line.split()[0] if line.startswith("      ") else ""
        if word in other:
            yield line, [*lines[:at], line.replace(word, other[word], 1), *lines[at + 1 :]]


def _swapped(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """The sums of two obligations, each in the place of the other."""
    sums = [at for at, line in enumerate(lines) if line.startswith("      proven ")]
    for first, second in zip(sums, sums[1:]):
        changed = list(lines)
        changed[first], changed[second] = lines[second], lines[first]
        yield lines[first], changed


def _twice(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    for at, end in _entries(lines):
        yield lines[at], lines[:end] + lines[at:end] + lines[end:]


def _heads(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Another version, digest or count, and a text that is another one than the digest says."""
    for at in (0, 1, 3):
        digit = re.search(r"\d", lines[at])
        assert digit is not None
        turned = f"{lines[at][: digit.start()]}{(int(digit[0]) + 1) % 10}{lines[at][digit.end() :]}"
        yield lines[at], [*lines[:at], turned, *lines[at + 1 :]]
    text = [at for at, line in enumerate(lines) if line.startswith("|   ")]
    for at, after in zip(text, text[1:]):
        changed = list(lines)
        changed[at], changed[after] = lines[after], lines[at]
        yield lines[at], changed
        yield lines[at], lines[:at] + lines[at + 1 :]


def _texts(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Another text, whose digest is right: an index and a guard around a store that are one further, a tile that is one
    wider."""
    for at, line in enumerate(lines):
        store = re.match(r"\|\s+store [\w.]+\[[^\[\]]+(?=\])", line)
        if store:
            yield line, _signed([*lines[:at], f"{store[0]} + 1{line[store.end() :]}", *lines[at + 1 :]])
        let = re.match(r"\|\s+let ([\w.]+) = (\d+)(?=\*)", line)
        if let and _is_written_at(let[1], lines[at + 1 :]):
            wider = f"{line[: let.start(2)]}{int(let[2]) + 1}{line[let.end(2) :]}"
            yield line, _signed([*lines[:at], wider, *lines[at + 1 :]])
        inside = [other for other in lines[at + 1 :] if other.startswith("|")]
        if re.match(r"\|\s+if .* < (?:[A-Z]|\d+)$", line) and inside and "store " in inside[0]:
            yield line, _signed([*lines[:at], f"{line} + 1", *lines[at + 1 :]])


def _is_written_at(name: str, lines: list[str]) -> bool:
    """Whether a tensor is written at a place that a name gives, before the name is another's."""
    for line in lines:
        if re.match(rf"\|\s+let {re.escape(name)} = ", line):
            return False
        if re.match(rf"\|\s+(?:store|%\S+ = tma_store) [^<=]*\b{re.escape(name)}\b", line):
            return True
    return False


def _points(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """A point that an element does not give, and one that is not said."""
    for at, line in enumerate(lines):
        if line.startswith("      at "):
            yield line, [*lines[:at], f"{line} + 1", *lines[at + 1 :]]
            yield line, lines[:at] + lines[at + 1 :]


ORDERS = re.compile(r"\|\s+(?:wait|arrive|advance|wait_group|barrier) (?! )")


def _order(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Another text, whose digest is right, and the certificate without what is said of a line: one that puts threads in
    order is missing."""
    for at, line in enumerate(lines):
        if ORDERS.match(line) and not _turns_whole(line, lines[:at]):
            end = at + 1
            while end < len(lines) and lines[end].startswith("    "):
                end += 1
            yield line, _signed(lines[:at] + lines[end:])


def _turns_whole(line: str, before: list[str]) -> bool:
    """Whether a cursor advances round its ring an even number of times, which leaves it where it was."""
    found = re.search(r"advance (\S+) by (\w+)$", line)
    if found is None:
        return False
    by, ring = (
        next((int(m[1]) for m in (re.search(pattern, one) for one in reversed(before)) if m), 0)
        for pattern in (rf"let {found[2]} = (\d+)$", rf"cursor {re.escape(found[1])} ring (\d+)")
    )
    return by > 0 and ring > 0 and by % (2 * ring) == 0


def _signed(lines: list[str]) -> list[str]:
    text = "".join(f"{line[2:]}\n" for line in lines if line.startswith("|"))
    digest = hashlib.sha256(text.encode()).hexdigest()
    return [f"gpu sha256 {digest}" if line.startswith("gpu sha256") else line for line in lines]
