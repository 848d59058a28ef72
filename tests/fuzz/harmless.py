"""Mutants of gpu text that mean what the text meant: the one statement that is another has numbers that are proven the
same wherever it is reached, a guard that holds at the same points, or a loop of as many turns, whose name nobody asks
for; or it lets more threads fill a register that those alone read which filled it before. The prover is that of the
checker (`ir.gpu.prove`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from tinyir.ir import gpu
from tinyir.ir.body import Read
from tinyir.ir.expr import Bound, Expr
from tinyir.ir.gpu import nodes
from tinyir.ir.gpu.prove import Facts
from tinyir.ir.gpu.walk import Visit, names_in, places_in, reads_in, visits

# Of mutants that nothing proves the same: level, case, rule, the line as it was with as many lines before it as the
# pattern has, as it is, and why no result can show it. The rule "inside" is of every mutant in such a loop.
LISTED = (
    (
        "cu",
        "",
        "fill not zero",
        r"(_early\[[0v]\]|_tile\[warpgroup_thread\]) = ",
        "",
        "what is loaded of rows that do not exist is stored by nobody",
    ),
    ("cu", "", "start of a sum", r"_early\[1\] = \{\};$", "", "filled before it is read"),
    ("cu", "", "start of a sum", r"^float S_v\[", "", "scales of rows that do not exist, whose results nobody stores"),
    ("gpu", "", "start of a fold", r"^reg S.v : ", "", "scales of rows that do not exist, whose results nobody stores"),
    (
        "cu",
        "down the rows",
        "start of a sum",
        r"_acc\[\d\]\[\d\] = ",
        "",
        "of a row before the first, which is not stored",
    ),
    ("gpu", "", "start of a fold", r"^reg total : ", "", "multiplied by exp2(-inf) before anything is added to it"),
    (
        "cu",
        "packed weights",
        "place of a lane",
        r"int r = .*lane / 4;$",
        r"lane / 8;$",
        "its whole eights alone are used",
    ),
    ("cu", "", "guard removed", r"^if \(k == 0\) \{$", "", "the same number is stored once more in each step"),
    ("cu", "warps", "guard removed", r"^if \(t \+ 2 < \d+\) \{$", "", "zeros are loaded once more, which nobody reads"),
    ("cu", "scan", "guard removed", r"max_nan\(y_acc\[0\], other\);$", "", "the maximum of an element and itself"),
    (
        "cu",
        "scan",
        "store lost",
        r"^y_acc\[0\] = __uint_as_float",
        "",
        "what is left is of the elements before, and a minimum",
    ),
    ("cu", "gemv across", "barrier dropped", r"^\}\n__syncthreads", "", "who reads the sums has stored them"),
    ("cu", "", "release dropped", r"^wgmma_wait<0>\(\);\nif ", "", "behind all loops nobody waits for it"),
    (
        "cu",
        "argmax",
        "bound off by one",
        r"< (\w+)\[0\]\) \|\| \(\w+ == \1",
        r"<= ",
        "whether it is less or equal, said again",
    ),
    ("cu", "attention masked", "neutral element", r"base == ", "", "a row that sees nothing is NaN either way"),
    (
        "gpu",
        "flash with a mask in tiles",
        "guard",
        r"^if i2 < \d+$",
        r"^if i2 < \d+ \+ 1$",
        "the copy engine puts False behind the end of a mask",
    ),
    ("gpu", "", "guard", r"^if (i\d) < (\d+) and ", r"^if i\d < \d+ \+ 1 and ", "a score of a row that is not stored"),
    ("gpu", "flash of a chunk", "guard dropped", r"^if lane - 4\*floor", "", "four lanes store the same number"),
    ("gpu", "flash of a chunk", "inside", r"^for t in 1\.\.cut$", "", "of a chunk no block but the first is cut"),
    ("cu", "flash of a chunk", "inside", r"^for \(int t = 1; t < cut;", "", "of a chunk no block but the first is cut"),
    (
        "cu",
        "",
        "fence lost",
        r"^wgmma_commit\(\);\n\}\nmbarrier_wait\(.*\);\nwgmma_fence",
        "",
        "no thread has touched a register since the fence before",
    ),
    (
        "gpu",
        "depthwise down",
        "start of a fold",
        r"^reg c.acc : ",
        "",
        "moved on, and 0 is put behind it, before it is read",
    ),
    (
        "gpu",
        "packed weights of a row",
        "start of a fold",
        r"^reg x.v : ",
        "",
        "rows that do not exist, whose products nobody stores",
    ),
    ("gpu", "gemv along the sum", "start of a fold", r"^reg x : ", "", "rows that do not exist, which nobody stores"),
    (
        "gpu",
        "attention",
        "start of a fold",
        r"^reg sc : ",
        "",
        "a softmax takes off what all scores of a row have more",
    ),
    (
        "gpu",
        "attention fp32",
        "stride",
        r"^let i2 = 16\*j",
        r"17\*j",
        "asked for by a guard alone: the same 75 columns",
    ),
    ("cu", "warps with narrow rows", "stride", r" m0 = 64 \* tm;", "", "there is one tile of rows"),
    ("cu", "depthwise in steps", "stride", r" i3 = 16 \* planes ", "", "planes is 0"),
    ("cu", "map joined", "wrong axis", r"= \(int\)blockIdx\.x;", "", "there is one CTA"),
    (
        "cu",
        "",
        "stride",
        r"matrix_descriptor\(",
        r"\d[13579] \* \w*slot\b",
        "an element more for each of at most 7 slots, and a descriptor counts 16 bytes",
    ),
    ("gpu", "of a cluster", "stride", r"^if 256\*cluster.rank \+ thread.x = 0$", "", "0 whatever the stride is"),
    (
        "gpu",
        "softmax of a cluster",
        "stride",
        r"^let left = ",
        r"257\*cluster\.rank",
        "rank 0 alone has a part of a row beside its vectors: at any other it is behind the row's end",
    ),
    (
        "cu",
        "",
        "fill not zero",
        r"^piece\.x\[v\] = col_[ab] \+ v < [MN] ",
        "",
        "columns whose results nobody stores",
    ),
    *(
        (
            "cu",
            "haloed",
            rule,
            r"\((?:image, place, ch|taps, r, c)\), .*\n\}\ncp_async_commit",
            "",
            "of the next group then, and the loop waits for both",
        )
        for rule in ("commit lost", "store lost")
    ),
    (
        "cu",
        "ampere",
        "stride",
        r"int s_slot = 0;\n.*\n.*\n(?:operand.*\n)?(?:operand|factor)_.*$",
        r"\d[13579] \* s_slot",
        "of the slot 0",
    ),
    (
        "cu",
        "depthwise down",
        "guard removed",
        r"^if \(0 <= p \+ t - \d+\) \{",
        "true",
        "of a row before the first, which is not stored",
    ),
    ("cu", "flash with a mask", "padding not guarded", r"\? met :", "", "met has -inf there, by the same guard"),
    ("cu", "haloed groups of four", "start of a sum", r"_[23]\[1\]", "", "its first element is of another group"),
    ("cu", "words along columns", "sign", r"^const int n0 = .*thread_y", r"- 8 \* thread_y", "thread_y is 0"),
    ("gpu", "attention", "guard dropped", r"^if i1 < \d+ and i2 < ", "", "a score of a row that is not stored"),
    ("gpu", "largest of windows", "guard dropped", r"^if i1 < 5 and ", "", "what is stored has a guard of its own"),
    ("gpu", "softmax", "index moved", r"^max.acc\[0\] = max", "", "a softmax takes off what all of a row have more"),
    ("cu", "packed weights of a row", "sign", r"8 \* piece;$", "", "there is one piece, which is 0"),
    ("cu", "gemv along", "bound off by one", r"^for \(int v = 0; v < 1;", "", "the second turn is behind all rows"),
    (
        "cu",
        "scan by look back",
        "store lost",
        r"^y_acc\[u\] = 0",
        "",
        "behind the end of a row, after all that is stored",
    ),
    (
        "cu",
        "mean of a line",
        "store lost",
        r"^x_row\[c\] = 0",
        "",
        "no window of a result that is stored reaches there",
    ),
    (
        "cu",
        "flash with a window",
        "bound off by one",
        r"i2 < 220 \?",
        "",
        "the first block is nearer than the far edge",
    ),
    ("cu", "map with a border", "bound off by one", r"i1 - 1 < 32\) \{$", r"<= 32", "i1 is a multiple of 4"),
    ("cu", "map turned in blocks", "bound off by one", r"M \* 8 - 7\) \{$", "", "what is less is a multiple of 8"),
)
UNSAID = ("span", "body", "otherwise", "guard")  # of a statement: where it is, and what is asked in another way


def reason_of(level: str, case: str, rule: str, before: str, text: str) -> str:
    """Why a mutant of one line is harmless, where it is one of LISTED; else nothing."""
    old, new = (found.split("\n") for found in (before, text))
    at = next((n for n, lines in enumerate(zip(old, new)) if lines[0] != lines[1]), None)
    if at is None:
        return ""
    loops = list(_heads_of(old, at))
    for its_level, its_case, its_rule, line, changed, why in LISTED:
        if its_level == level and its_case in case and re.search(changed, new[at].strip()):
            places = loops if its_rule == "inside" else [at] if its_rule == rule else []
            if any(is_line(line, old, place) for place in places):
                return why
    return ""


def is_line(pattern: str, lines: list[str], at: int) -> bool:
    """Whether a line is as a pattern says, which may say the lines before it too."""
    first = max(at - pattern.count(r"\n"), 0)
    return re.search(pattern, "\n".join(line.strip() for line in lines[first : at + 1])) is not None


def _heads_of(lines: list[str], at: int) -> Iterator[int]:
    """The lines whose blocks a line is in, by how far they are moved in, from the innermost."""
    deep = _depth(lines[at])
    for above in range(at - 1, -1, -1):
        if lines[above].strip() and _depth(lines[above]) < deep:
            deep = _depth(lines[above])
            yield above


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def is_same(before: str, after: str) -> bool:
    """Whether the second text, which is the first but for one line, is proven to mean the same."""
    lines = zip(before.split("\n"), after.split("\n"), strict=True)
    at = next(number for number, (old, new) in enumerate(lines, 1) if old != new)
    modules = gpu.parse(before), gpu.parse(after)
    kernels = [[list(visits(kernel, module.plans.program.model)) for kernel in module.kernels] for module in modules]
    pairs = [
        (old, new, whole)
        for whole, changed in zip(*kernels, strict=True)
        for old, new in zip(_at(whole, at), _at(changed, at), strict=True)
    ]
    return bool(pairs) and all(_means_same(*pair) for pair in pairs)


def _at(whole: list[Visit], line: int) -> list[Visit]:
    """The visits of the statements of a line."""
    return [v for v in whole if v.statement.span is not None and v.statement.span.line == line]


def _means_same(old: Visit, new: Visit, whole: list[Visit]) -> bool:
    one, other, facts = old.statement, new.statement, old.inside
    if type(one) is not type(other):
        return False
    if not _holds_alike(facts, _guard(one), _guard(other)):
        return isinstance(one, nodes.If) and _fills_for_none(one, whole)
    if isinstance(one, nodes.For):
        return _turns_alike(facts, one, other)
    return all(_equal(facts, *pair) for pair in _pairs(one, other))


def _guard(s: Any) -> tuple[Bound, ...]:
    return getattr(s, "guard", ())


def _holds_alike(facts: Facts, one: tuple[Bound, ...], other: tuple[Bound, ...]) -> bool:
    """Whether each guard follows from the other."""
    return all(
        within.holds(bound)
        for given, asked in ((one, other), (other, one))
        for within in (facts.with_guard(given),)
        for bound in asked
    )


def _fills_for_none(one: nodes.If, whole: list[Visit]) -> bool:
    """Whether all that a guard keeps threads from is to fill registers that are read under the same guard alone."""
    if one.otherwise or not all(isinstance(s, nodes.Assign) for s in one.body):
        return False
    filled = {s.to.name for s in one.body}
    readers = [v for v in whole if filled & {*_read_in(v.statement)}]
    return all(any(isinstance(p, nodes.If) and p.guard == one.guard for p in v.path) for v in readers)


def _read_in(s: Any) -> Iterator[str]:
    """The arrays that a statement reads."""
    yield from (n.tensor for n in reads_in(s) if isinstance(n, Read))
    yield from (place.name for word, place in places_in(s) if word != "to")


def _turns_alike(facts: Facts, one: nodes.For, other: nodes.For) -> bool:
    """Whether two loops take as many turns, with the same numbers where somebody asks for them."""
    counts = [(loop.high - loop.low).ceildiv(loop.step) for loop in (one, other)]
    is_asked = any(one.name in names_in(s) for s in one.body)
    first = not is_asked or _equal(facts, one.low, other.low)
    return one.name == other.name and first and _equal(facts, one.step, other.step) and _equal(facts, *counts)


def _pairs(one: Any, other: Any) -> Iterator[tuple[Any, Any]]:
    """What is other in two statements, piece by piece."""
    if one == other:
        return
    if is_dataclass(one) and type(one) is type(other) and not isinstance(one, Expr):
        for part in fields(one):
            if part.name not in UNSAID:
                yield from _pairs(getattr(one, part.name), getattr(other, part.name))
    elif isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        for pair in zip(one, other):
            yield from _pairs(*pair)
    else:
        yield one, other


def _equal(facts: Facts, one: Any, other: Any) -> bool:
    """Whether two numbers are proven the same."""
    if not isinstance(one, Expr) or not isinstance(other, Expr):
        return bool(one == other)
    return facts.is_at_least(one, other) and facts.is_at_least(other, one)
