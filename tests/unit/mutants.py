"""Faults planted in emitted CUDA by rule, one a text: a barrier dropped, an index off by one, a guard removed, a
swizzle that is another.

A rule leaves alone what no thread can tell: prefetches, the order of tiles, how often a loop is unrolled, how large an
array is declared.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

Rule = Callable[[str], Iterator[str]]

NAME = r"[A-Za-z_]\w*"
NO_FAULT = re.compile(
    r"#pragma|^\s*//|prefetch_map|(?:grouped|turning)_tile|give_registers|take_registers|__launch_bounds__|__shared__|^\s*extern|\(&\w+\)\["
)
DECLARED = re.compile(rf"^\s*(?:const )?(?:unsigned |signed )?(?:{NAME})(?: long)? {NAME}(?:\[\w+\])+(?: = \{{.*\}})?;")
BARRIER = re.compile(r"^\s*(?:if \([^()]*\) )?(?:__syncthreads|__syncwarp|\w*barrier(?:_sync)?)\(.*\);$")
WAIT = re.compile(r"^\s*(?:mbarrier_wait|\w+_wait|await_\w+)(?:<\d+>)?\(.*\);$")
FENCE = re.compile(r"^\s*(?:fence_\w+|wgmma_fence)\(\);$")
COMMIT = re.compile(r"^\s*\w+_commit\(\);$")
STORE = re.compile(
    rf"^\s*(?:if \([^()]*\) )?(?:{NAME}(?:\[.*\])+ (?:[-+*]?=) "
    rf".*;|(?:tma_\w+|store_\w+|copy_\d+|mma_\w+|operand_\w+|swizzled_at|swizzled_of_lane|cp_async\w*|atomic\w+|publish_\w+)[<(]"
    rf".*\);)(?:  //.*)?$"
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A text with one fault: the rule that it breaks, and the line (1-based) that was changed."""

    rule: str
    line: int
    text: str


def _dropped(pattern: re.Pattern[str]) -> Rule:
    def rule(line: str) -> Iterator[str]:
        if pattern.match(line):
            yield re.match(r"\s*", line)[0] + ";"

    return rule


def changed(pattern: str, *replacements: str | Callable[[re.Match[str]], str]) -> Rule:
    """Each match in turn, replaced in each of the ways."""
    found_by = re.compile(pattern)

    def rule(line: str) -> Iterator[str]:
        code = line.split("  //")[0]
        for found in found_by.finditer(code):
            for replacement in replacements:
                new = replacement(found) if callable(replacement) else found.expand(replacement)
                if new != found[0]:
                    yield code[: found.start()] + new + line[found.end() :]

    return rule


def _subscripts(line: str) -> Iterator[tuple[int, int]]:
    """Where what is in brackets begins and ends, of an element that is read or written."""
    for start in (m.end() for m in re.finditer(r"(?<=\w)\[|(?<=\])\[", line)):
        depth, end = 1, start
        while end < len(line) and depth:
            depth += {"[": 1, "]": -1}.get(line[end], 0)
            end += 1
        if depth == 0:
            yield start, end - 1


def _index_off_by_one(line: str) -> Iterator[str]:
    if DECLARED.match(line):
        return
    code = line.split("  //")[0]
    for start, end in _subscripts(code):
        yield f"{line[:start]}{line[start:end]} + 1{line[end:]}"


def _guard_removed(line: str) -> Iterator[str]:
    """A guard as a whole, or one of its parts."""
    found = re.match(r"^(\s*(?:\} else )?if \()(.*)(\)(?: \{.*| [^{]*;|)(?:  //.*)?)$", line)
    if found is None or found[2].startswith(("thread_x == 0", "cta_x == 0", "warpgroup_thread == 0", "++")):
        return
    parts = found[2].split(" && ")
    for n in range(len(parts)):
        if parts[n].count("(") == parts[n].count(")"):
            yield found[1] + (" && ".join(parts[:n] + parts[n + 1 :]) or "true") + found[3]


def _one_more(found: re.Match[str]) -> str:
    whole, (start, end) = found[0], (at - found.start() for at in found.span(1))
    return f"{whole[:start]}{int(found[1]) + 1}{whole[end:]}"


RULES: Mapping[str, Rule] = {
    "barrier dropped": _dropped(BARRIER),
    "wait dropped": _dropped(WAIT),
    "wait too loose": changed(r"_wait<(\d+)>", _one_more),
    "phase not flipped": changed(r" \w+_phase \^= 1;", ""),
    "phase starts wrong": changed(r"(\w+_phase) = ([01]);", lambda m: f"{m[1]} = {1 - int(m[2])};"),
    "release dropped": _dropped(re.compile(r"^\s*(?:if \([^()]*\) )?mbarrier_arrive\w*\(.*\);$")),
    "arrivals miscounted": changed(r"mbarriers?_init(?:<\d+, \d+>)?\(&?\w+(?:\[\w+\])?, (\d+)\)", _one_more),
    "bytes miscounted": changed(
        r"mbarrier_expect\((.*), (\d+)\);",
        lambda m: f"mbarrier_expect({m[1]}, {int(m[2]) + 16});",
        lambda m: f"mbarrier_expect({m[1]}, {int(m[2]) - 16});",
    ),
    "fence lost": _dropped(FENCE),
    "commit lost": _dropped(COMMIT),
    "store lost": _dropped(STORE),
    "index off by one": _index_off_by_one,
    "guard removed": _guard_removed,
    "bound off by one": changed(r"(?<=\w) < (?=[\w(])", " <= "),
    "padding not guarded": changed(r"= ([^=?;]+?) && ([^&?;]+?) \? ", r"= \1 ? ", r"= \2 ? "),
    "neutral element": changed(r"0xff800000u", "0x3f800000u", "0x7f800000u"),
    "start of a sum": changed(r"( \w+(?:\[\d+\])* )= \{\};", lambda m: f"{m[1]}= {{1}};"),
    "fill not zero": changed(
        r": (?:0\.0f|fp16\{0x0000\});",
        lambda m: ": __uint_as_float(0x7fc00000u);" if "0.0f" in m[0] else ": fp16{0x7e00};",
    ),
    "lane mask": changed(r"0xffffffffu", "0x0000ffffu"),
    "lanes in a fold": changed(
        r"lanes = (\d+); lanes > 0",
        lambda m: f"lanes = {int(m[1]) // 2}; lanes > 0",
        lambda m: f"lanes = {int(m[1])}; lanes > 1",
    ),
    "swizzle": changed(
        r"(swizzled_at|swizzled_of_lane|operand_along|factor_along|rows_of_halves|store_piece_\w+)<(\d+)(?=[,>])",
        lambda m: f"{m[1]}<{ {128: 64, 64: 32, 32: 64}.get(int(m[2]), 64) }",
    ),
    "descriptor": changed(
        r"matrix_descriptor\((.*), (\d+), (\d+)\)",
        r"matrix_descriptor(\1, \3, \2)",
        lambda m: f"matrix_descriptor({m[1]}, {m[2]}, {int(m[3]) // 2})",
    ),
    "step along k": changed(r"_start \+ (\d+) \* step", lambda m: f"_start + {int(m[1]) * 2} * step"),
    "step of a loop": changed(r"(\w+) \+= (\d+)(?=\))", lambda m: f"{m[1]} += {int(m[2]) * 2}"),
    "stride": changed(r"\b(\d+) \* (?=\w*(?:slot|tm|tn|warp_index|thread|lane|k\b))", lambda m: f"{int(m[1]) + 1} * "),
    "wrong axis": changed(r"(blockIdx|threadIdx)\.x", r"\1.y"),
    "wrong axis of a tile": changed(
        r"\b(m0|n0|tm|tn|wm|wn)\b(?= *[+;,)])",
        lambda m: (
            {"m": "n", "n": "m", "t": "t", "w": "w"}[m[1][0]]
            + (m[1][1:] if m[1][0] in "mn" else {"m": "n", "n": "m"}[m[1][1]])
        ),
    ),
    "wrong fold": changed(r"\bmax_nan\(", "min_nan("),
    "sign": changed(r"(?<=[\w\])]) \+ (?=[\w(])", " - "),
    "place of a lane": changed(r"\blane (%|/) (\d+)", lambda m: f"lane {m[1]} {int(m[2]) * 2}"),
    "else taken": changed(r"\? (.*?) : (.*?);$", r"? \2 : \1;"),
}


def _head_of(lines: list[str], number: int) -> int:
    """Where the body of the kernel begins that a line is in; 1 before all of them."""
    return max((n for n in range(number) if lines[n] == "{"), default=1)


def _is_loop_of_shuffles(lines: list[str], number: int, rule: str) -> bool:
    """`lanes <= 32`: a shuffle by 32 lanes reaches none, and no lane is asked to take it."""
    return rule == "bound off by one" and "lanes < 32" in lines[number]


def _is_number_of_a_lane(lines: list[str], number: int, rule: str) -> bool:
    """`lane % 64` and `lane / 64`: a lane is below 32, and so are both."""
    return rule == "place of a lane" and re.search(r"lane [%/] 32\b", lines[number]) is not None


def _is_before_any_use(lines: list[str], number: int, rule: str) -> bool:
    """A barrier outside of loops whose fold is the first to touch its shared memory: nobody can still read that."""
    if rule not in ("barrier dropped", "moved after its use") or not lines[number].startswith("  __syncthreads"):
        return False
    following = next(line for line in lines[number + 1 :] if not re.match(r"\s*(?:#pragma|for \()", line))
    found = re.match(rf"\s*if \(.*\) ({NAME})\[.*\] = ", following)
    head = _head_of(lines, number)
    return found is not None and not any(
        f"{found[1]}[" in line and "__shared__" not in line for line in lines[head:number]
    )


def _is_last_wait(lines: list[str], number: int, rule: str) -> bool:
    """`cp_async_wait<0>` behind the loop: the last steps copy nothing, and the loop has waited for all that was
    copied."""
    return (
        rule in ("wait dropped", "wait too loose")
        and "cp_async_wait<0>" in lines[number]
        and lines[number - 1] == "  }"
    )


def _is_turn_behind_a_guard(lines: list[str], number: int, rule: str) -> bool:
    """One turn more over a row in registers: what it would take is behind the row's end, which a guard asks for."""
    is_turns = re.search(r"for \(int ([uv]) = 0; \1 < \d+; \+\+\1\)", lines[number]) is not None
    return (
        rule == "bound off by one"
        and is_turns
        and any(re.match(r"\s*if \(\w+ < \d+\) \{", line) for line in lines[number + 1 : number + 3])
    )


def _is_of_a_long_row(lines: list[str], number: int, rule: str) -> bool:
    """`thread_x <= left`: a row of a known length is not shorter than what comes before its first whole vector."""
    return rule == "guard removed" and re.search(r"thread_x <= left && left < \d+\)", lines[number]) is not None


def _is_multiplied_by_0(lines: list[str], number: int, rule: str) -> bool:
    """The total and the result that attention starts from: its first step has no maximum before it, and scales both by
    exp2(-inf)."""
    return (
        rule == "start of a sum"
        and re.search(r" (?:total|acc)\b", lines[number]) is not None
        and any("float top[" in line for line in lines[number - 3 : number])
    )


def _is_thrown_away(lines: list[str], number: int, rule: str) -> bool:
    """Rows of Q and K behind the last: no output is stored for them, and their scores are -inf whatever was computed.
    Columns of V behind the last: nor is one for these."""
    place = r"\b[qk]_tile\[|\(v \+ .*\) = i\d+ < \d+ \? V\["
    return rule == "fill not zero" and re.search(place, lines[number]) is not None


def _is_for_rows_that_see_nothing(lines: list[str], number: int, rule: str) -> bool:
    """Attention without a mask: every row sees a column, so its maximum is never -inf."""
    head = _head_of(lines, number)
    return (
        rule in ("neutral element", "else taken")
        and "== __uint_as_float(0xff800000u)) ?" in lines[number]
        and " mask" not in lines[head - 1]
    )


def _is_choice_of_tiles(lines: list[str], number: int, rule: str) -> bool:
    """Causal attention may compute a tile that is masked as a whole."""
    return rule == "wrong axis of a tile" and re.search(r"if \(0 <= .*m0 \+ \d+ - n0\)", lines[number]) is not None


def _is_for_more_tiles(lines: list[str], number: int, rule: str) -> bool:
    """What a look back does with over 32 words of the last level, which more than 32768 tiles have; and all lanes may
    publish what is theirs alike."""
    is_last_level = re.search(r"level < 3;|is_last && level < 2", lines[number]) and rule in (
        "bound off by one",
        "guard removed",
    )
    return bool(is_last_level) or rule == "step of a loop" and "n < at; n += 32" in lines[number]


EQUIVALENT = (
    _is_loop_of_shuffles,
    _is_number_of_a_lane,
    _is_before_any_use,
    _is_last_wait,
    _is_turn_behind_a_guard,
    _is_of_a_long_row,
    _is_multiplied_by_0,
    _is_thrown_away,
    _is_for_rows_that_see_nothing,
    _is_choice_of_tiles,
    _is_for_more_tiles,
)  # each says why


def lines_of(text: str, entries: Collection[str]) -> Iterator[int]:
    """The numbers (from 0) of the lines of the bodies of these kernels."""
    is_kernel = is_inside = False
    for number, line in enumerate(text.splitlines()):
        is_kernel = is_kernel or line.split("(")[0] in entries
        if is_kernel and line == "{":
            is_inside = True
        elif is_inside and line == "}":
            is_kernel = is_inside = False
        elif is_inside:
            yield number


def every_mutant(text: str, entries: Collection[str]) -> dict[str, list[Mutant]]:
    """All mutants of a text, by rule, in the order of its lines."""
    lines = text.splitlines()
    found: dict[str, list[Mutant]] = {}

    def add(rule: str, number: int, *replaced: str) -> None:
        if any(is_equivalent(lines, number, rule) for is_equivalent in EQUIVALENT):
            return
        changed = "\n".join([*lines[:number], *replaced, *lines[number + len(replaced) :]]) + "\n"
        found.setdefault(rule, []).append(Mutant(rule, number + 1, changed))

    inside = set(lines_of(text, entries))
    for number in sorted(inside):
        if NO_FAULT.search(lines[number]):
            continue
        for name, rule in RULES.items():
            for new in rule(lines[number]):
                add(name, number, new)
        following = lines[number + 1] if number + 1 in inside else ""
        if (BARRIER.match(lines[number]) or WAIT.match(lines[number])) and STORE.match(following):
            add("moved after its use", number, following, lines[number])
    for number, line in enumerate(lines):
        if line.startswith("//   tensor_map ") and " swizzle " in line:
            add(
                "swizzle of a map",
                number,
                re.sub(r"swizzle (\d+)", lambda m: f"swizzle { {'128': 64, '64': 32, '32': 64}[m[1]] }", line),
            )
    return found


def drawn(texts: Mapping[str, tuple[str, Collection[str]]], seed: int) -> Iterator[tuple[str, Mutant]]:
    """(name of the text, mutant), rule after rule, each time of a text that was used least. `texts` have the entries
    that are run."""
    draw = random.Random(seed)
    by_rule: dict[str, dict[str, list[Mutant]]] = {}
    for name, (text, entries) in texts.items():
        for rule, mutants in every_mutant(text, entries).items():
            draw.shuffle(mutants)
            by_rule.setdefault(rule, {})[name] = mutants
    used: dict[str, int] = {}
    while any(by_rule.values()):
        for rule in sorted(by_rule):
            left = [name for name, mutants in by_rule[rule].items() if mutants]
            if left:
                name = min(left, key=lambda n: (used.get(n, 0), draw.random()))
                used[name] = used.get(name, 0) + 1
                yield name, by_rule[rule][name].pop()
            else:
                by_rule[rule] = {}
