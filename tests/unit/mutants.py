"""Faults planted in emitted kernels by rule: a line dropped or moved, a bound off by one, a guard removed, a number changed."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import Iterator

ORDERING = re.compile(r"^\s*(__syncthreads|__syncwarp|\w*barrier\w*|mbarrier_\w+|fence_\w+|wgmma_(?:fence|commit|wait)|tma_store_(?:commit|wait)|cp_async_(?:commit|wait))\b")
STATEMENT = re.compile(r"^\s*[^#/{}]*;\s*(//.*)?$")
DECLARATION = re.compile(r"^\s*(?:const |extern |__shared__ |unsigned |float |int |fp16 |bool |long |double |\w+ \*const )")
ARRAY = re.compile(r"^\s*(?:extern )?(?:__shared__ .*|float|fp16|bf16|int|unsigned int|double|long long|bool) \(?&?\w+\)?\[")
LESS = re.compile(r" < (?=\w)")
BOTH = re.compile(r"([\w \[\]+*/%()-]+? <=? [\w \[\]+*/%()-]+?) && ")
NUMBER = re.compile(r"(?<![\w.\"])(\d+)(?![\w.\"])")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A text with one fault: what was done, and to which line (1-based)."""

    rule: str
    line: int
    text: str


def lines_of(text: str, entry: str) -> Iterator[int]:
    """The numbers (from 0) of the lines of a kernel's body."""
    is_it = is_inside = False
    for number, line in enumerate(text.splitlines()):
        is_it = is_it or line.startswith(f"{entry}(")
        if is_it and line == "{":
            is_inside = True
        elif is_inside and line == "}":
            return
        elif is_inside:
            yield number


def mutants_of(text: str, entry: str, count: int, seed: int = 0) -> list[Mutant]:
    """`count` different ones of a kernel, drawn evenly over the rules as far as each goes."""
    by_rule: dict[str, list[Mutant]] = {}
    for mutant in _all(text, entry):
        by_rule.setdefault(mutant.rule, []).append(mutant)
    draw = random.Random(seed)
    for found in by_rule.values():
        draw.shuffle(found)
    chosen: dict[str, Mutant] = {}
    while len(chosen) < count and any(by_rule.values()):
        for rule in sorted(by_rule):
            if by_rule[rule] and len(chosen) < count:
                mutant = by_rule[rule].pop()
                chosen.setdefault(mutant.text, mutant)
    return list(chosen.values())


def _all(text: str, entry: str) -> Iterator[Mutant]:
    lines = text.splitlines()

    def made(rule: str, number: int, *replaced: str) -> Mutant:
        return Mutant(rule, number + 1, "\n".join([*lines[:number], *replaced, *lines[number + len(replaced) :]]) + "\n")

    inside = list(lines_of(text, entry))
    for number in inside:
        line = lines[number]
        if "#pragma" in line or line.lstrip().startswith("//"):
            continue
        if ORDERING.match(line):
            yield made("order dropped", number, "")
        elif STATEMENT.match(line) and not DECLARATION.match(line) and not re.match(r"\s*(for|if|else|return)\b", line):
            yield made("statement dropped", number, "")
        following = lines[number + 1] if number + 1 in inside else ""
        if STATEMENT.match(line) and STATEMENT.match(following) and not DECLARATION.match(line) and not DECLARATION.match(following):
            if ORDERING.match(line) or ORDERING.match(following):
                yield made("order moved", number, following, line)
        for found in LESS.finditer(line):
            yield made("bound off by one", number, f"{line[: found.start()]} <= {line[found.end() :]}")
        for found in BOTH.finditer(line):
            yield made("guard removed", number, line[: found.start(1)] + line[found.end() :])
        if "launch_bounds" not in line:
            for found in NUMBER.finditer(line.split("//")[0] if not ARRAY.match(line) else ""):  # a larger array is no fault
                yield made("number changed", number, f"{line[: found.start()]}{int(found[1]) + 1}{line[found.end() :]}")
