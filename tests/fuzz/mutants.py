"""Faults planted at every level of the kernels' texts, one a text, over all families: is each found, by a checker
or by the simulation?

    python -m tests.fuzz.mutants --count 1000        # prints a table, and each that was not found

At gpu level statements that order something are dropped or changed (`tests.unit.statement_mutants`), and lines by the
rules below; plan text is edited as a person edits it; cu text by the rules of `tests.unit.mutants`. A plan may be
another one that gives the same numbers. Index, poly and region text have tests of their own that try every edit
(`tests/unit/test_edited_texts.py`).
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from tests.unit import mutants as cu_mutants
from tests.unit import statement_mutants, text_edits
from tests.unit.families import CASES, family
from tests.unit.turns import in_turn
from tinyir.ir import gpu, manifest, plan
from tinyir.kit.diag import Refused
from tinyir.lower import cu as to_cu
from tinyir.lower import gpu as to_gpu
from tinyir.lower import language_of
from tinyir.runtime.run import run

from . import harmless, sandbox

SECONDS = 240  # of CPU for one mutant
SEEDS = (0, 1)  # orders of the simulation's threads
NO_TEXT = "E1721"  # the compiler refuses it
Rule = Callable[[str], Iterator[str]]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A text of a level with one fault: the case that it is of, the rule, the line as it was and as it is."""

    level: str
    case: str
    rule: str
    before: str
    after: str
    text: str

    def __str__(self) -> str:
        return f"{self.level}, {self.case}, {self.rule}: {self.before} -> {self.after}"


# --- lines of gpu text


def _changed(pattern: str, *replacements: str | Callable[[re.Match[str]], str]) -> Rule:
    return cu_mutants.changed(pattern, *replacements)


def _one_more(group: int) -> Callable[[re.Match[str]], str]:
    def replaced(found: re.Match[str]) -> str:
        start, end = (at - found.start() for at in found.span(group))
        return f"{found[0][:start]}{int(found[group]) + 1}{found[0][end:]}"

    return replaced


LINES: dict[str, Rule] = {
    "index moved": _changed(r"(?<=[\w.])\[([^\[\]]+)\](?= |$|\)|,)", r"[\1 + 1]"),
    "stride": _changed(r"\b(\d+)\*(?=[a-z])", _one_more(1)),
    "extent": _changed(r"for (\w+) in (\w+)\.\.(\w+)", r"for \1 in \2..\3 - 1", r"for \1 in \2 + 1..\3"),
    "guard": _changed(r" < (\w+)(?= and|$)", r" < \1 + 1"),
    "guard dropped": _changed(r"(?<=if )(.+?) and ", ""),
    "slot of another step": _changed(r"\b(\w+)\.slot\b", r"\1.previous"),
    "arithmetic": _changed(
        r"\b(add|sub|mul|max|min|fdiv)\(", lambda m: {"add": "sub", "sub": "add", "mul": "add"}.get(m[1], "add") + "("
    ),
    "fold": _changed(r"_reduce (sum|max|min)\b", lambda m: f"_reduce {'min' if m[1] != 'min' else 'max'}"),
    "start of a fold": _changed(r"(?<= = )(0\.0|-inf)$", "1.0"),
    "swizzle": _changed(r"swizzle (\d+)", lambda m: f"swizzle {64 if m[1] != '64' else 32}"),
}
# Of these lines nothing is a fault that a run shows: names, where values came from, for which sizes a kernel is, how an
# array is laid out that threads fill and read by themselves, how large registers are declared, what they hold at first
# that a load fills before anything reads them, and the order in which a plan names what it guards.
NO_FAULT = re.compile(r"^\s*(?:from |kernel |launch |assume |shared |reg [\w.]+ : \w+\[[^=]*$|reg [\w.]+\.early )")
OF_PLANS = ("estimate", "plan ", "predicate")


def _gpu_lines(case: str) -> Iterator[Mutant]:
    text = family(case).kernels
    lines = text.split("\n")
    first = next(n for n, line in enumerate(lines) if line.startswith("kernel "))
    for at in range(first, len(lines)):
        if NO_FAULT.match(lines[at]):
            continue
        for name, rule in LINES.items():
            if name == "index moved" and lines[at].strip().startswith("reg "):
                continue  # registers that are more than are used
            for new in rule(lines[at]):
                whole = "\n".join([*lines[:at], new, *lines[at + 1 :]])
                yield Mutant("gpu", case, name, lines[at].strip(), new.strip(), whole)


def _gpu_statements(case: str) -> Iterator[Mutant]:
    for one in statement_mutants.every_mutant(to_gpu.lower(plan.parse(CASES[case]))):
        if not statement_mutants.is_harmless(one):
            said = str(one).removeprefix(f"{one.rule}: ")
            yield Mutant("gpu", case, one.rule, said, "", gpu.show(one.module))


def _plans(case: str) -> Iterator[Mutant]:
    for edit in text_edits.edits_of(CASES[case], "plan "):
        if (
            not edit.before.startswith(OF_PLANS)
            and edit.after.split() != edit.before.split()
            and "\n" not in edit.after
        ):
            yield Mutant("plan", case, "an edit", edit.before, edit.after, edit.text)


def _cuda(case: str) -> Iterator[Mutant]:
    one = family(case)
    lines = one.text.splitlines()
    for rule, found in cu_mutants.every_mutant(one.text, sorted(one.launched())).items():
        for mutant in found:
            after = mutant.text.splitlines()[mutant.line - 1].strip()
            yield Mutant("cu", case, rule, lines[mutant.line - 1].strip(), after, mutant.text)


LEVELS: dict[str, Callable[[str], Iterator[Mutant]]] = {
    "gpu lines": _gpu_lines,
    "gpu statements": _gpu_statements,
    "plan": _plans,
    "cu": _cuda,
}


def drawn(seed: int) -> Iterator[Mutant]:
    """Mutants of all levels and cases in turn, rule after rule."""

    def of_level(level: str) -> Iterator[Mutant]:
        return in_turn([_shuffled(level, case, seed) for case in CASES])

    return in_turn([of_level(level) for level in LEVELS])


def _shuffled(level: str, case: str, seed: int) -> Iterator[Mutant]:
    draw = random.Random(f"{level} {case} {seed}")
    by_rule: dict[str, list[Mutant]] = {}
    for mutant in LEVELS[level](case):
        by_rule.setdefault(mutant.rule, []).append(mutant)
    queues = list(by_rule.values())
    draw.shuffle(queues)
    for queue in queues:
        draw.shuffle(queue)
    yield from in_turn([iter(queue) for queue in queues])


# --- what finds them


def found_by(level: str, case: str, text: str) -> str:
    """`refused` with the checker's code, `seen` with that of the simulation, `late` where what was taken is refused by
    the next stage, `obeyed` where a plan is another one that is right; empty where nothing is found."""
    try:
        if level == "cu":
            return _simulated(case, text)
        module = language_of(level).parse(text)
        if level == "plan" and module == plan.parse(CASES[case]):
            return "same"
        faults = [d for d in language_of(level).check(module) if d.is_error] or language_of(level).validate(module)
        if not faults and level == "plan":
            module = to_gpu.lower(module)
            faults = [d for d in language_of("gpu").check(module) if d.is_error]
            if faults:  # a plan that is taken and gives a wrong kernel: the wrong one of two checkers
                return f"late {faults[0].code}"
    except Refused as fault:
        return f"refused {fault.diags[0].code}"
    if faults:
        return f"refused {faults[0].code}"
    try:
        code = manifest.show(to_cu.lower(module))
    except Refused as fault:  # what the emission has no words for
        return f"late {fault.diags[0].code}"
    seen = _simulated(case, code)
    is_another = level == "plan" and _kernels(gpu.show(module)) != _kernels(family(case).kernels)
    return seen or ("obeyed" if is_another else "")


def _kernels(text: str) -> str:
    return text[text.index("\nkernel ") :]


def _simulated(case: str, text: str) -> str:
    one = family(case)
    for arrays, seed in itertools.product(one.inputs, SEEDS):
        try:
            run(text, arrays, device="sim", check=True, rtol=one.tolerance, atol=one.tolerance, seed=seed, limit=20)
        except Refused as fault:
            return f"seen {fault.diags[0].code}"
    return ""


def verdict(mutant: Mutant) -> str:
    """How a mutant is found, `same` where it is proven to mean what the text meant, `harmless` where it is listed as
    such, or nothing. It is tried in a child: what does not end is found too."""

    def work() -> tuple[int, bytes, bytes]:
        found = found_by(mutant.level, mutant.case, mutant.text)
        is_line = mutant.level == "gpu" and mutant.rule in LINES
        if not found and is_line and harmless.is_same(family(mutant.case).kernels, mutant.text):
            found = "same"
        right = family(mutant.case).text if mutant.level == "cu" else family(mutant.case).kernels
        if not found and (why := harmless.reason_of(mutant.level, mutant.case, mutant.rule, right, mutant.text)):
            found = f"harmless ({why})"
        return 0, b"", found.encode()

    family(mutant.case)
    ending = sandbox.forked(work, SECONDS)
    return ending.printed.decode() if ending.code == 0 else f"ended {ending.code}: {ending.said[-300:]}"


def _start(folder: str) -> None:
    """What a worker builds is of no use to anyone later."""
    os.environ["XDG_CACHE_HOME"] = folder


def campaign(count: int, seed: int, jobs: int, seconds: float = math.inf) -> Iterator[tuple[Mutant, str]]:
    """(mutant, how it is found) of a number of mutants that compile, or of as many as the time takes."""
    end = time.monotonic() + seconds
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(jobs, initializer=_start, initargs=(folder,)) as pool,
    ):
        chosen = list(itertools.islice(drawn(seed), count))
        for mutant, found in zip(chosen, pool.map(verdict, chosen)):
            if NO_TEXT not in found:
                yield mutant, found
            if time.monotonic() > end:
                pool.shutdown(cancel_futures=True)
                return


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 1 where more than one of fifty faults was not found."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--time", type=float, default=math.inf, help="seconds, after which no more are tried")
    args = parser.parse_args(argv)
    table: Counter[tuple[str, str]] = Counter()
    missed = faults = 0
    for mutant, found in campaign(args.count, args.seed, args.jobs, args.time):
        word = found.split(" ")[0] or "not found"
        table[mutant.level, word] += 1
        missed += not found
        faults += word not in ("obeyed", "same", "harmless")
        if word not in ("refused", "seen", "obeyed", "same"):
            print(f"{found or 'not found'}: {mutant}", flush=True)
    for (level, word), number in sorted(table.items()):
        print(f"{number:6} {level:5} {word}")
    print(f"{faults - missed} of {faults} faults found, {100 * (faults - missed) / max(faults, 1):.1f} %")
    return 1 if 50 * missed > faults else 0


if __name__ == "__main__":
    sys.exit(main())
