"""Every use of the cache, small: each asks for the thing of a number, makes it where it is not kept, and says whether
it got that of this number."""

from __future__ import annotations

import csv
import functools
from collections.abc import Callable
from pathlib import Path

from tinyir.ir import manifest, plan
from tinyir.kit import held
from tinyir.kit.kept import cache_dir
from tinyir.kit.text import Grammar
from tinyir.runtime import programs
from tinyir.runtime.cache import built, key_of
from tinyir.runtime.compile import Compiler, cubin_of
from tinyir.runtime.saved import Saved
from tinyir.tune import store

from ..commands import ROOT

NUMBERS = 4  # things of each kind
LONG = 3000  # times that a thing repeats its number: several pages of memory
SAMPLE = ROOT / "samples" / "gemm_bias_relu" / "gemm_bias_relu"


def grammar(number: int) -> bool:
    """The tables of a grammar, which are others for other starts."""
    starts = ("guard", *(("expr",), ("dims",), ("exprs",), ())[number % 4])
    return Grammar("expr", starts).parse("0 <= i0 < M", "guard") == tree_of_guard()


@functools.cache
def tree_of_guard() -> object:
    """What the text of `grammar` is; asked first where nothing is at fault."""
    return Grammar("expr", ("guard",)).parse("0 <= i0 < M", "guard")


def mark(number: int) -> bool:
    """The marks of texts that hold."""
    held.mark(f"text {number}")
    return not held.is_marked("a text that nobody marked")


def shared_object(number: int) -> bool:
    """A file that is built and loaded by its path."""
    content = b"%d;" % number * LONG
    made = built("sim", key_of([f"object {number}"]), ".so", lambda out: out.write_bytes(content))
    return made.read_bytes() == content


def cubin(number: int) -> bool:
    """A kernel with what its compiler said."""
    compiler = Compiler("none", lambda text, arch: (text.encode() * LONG, f"log of {text}"))
    made = cubin_of(f"kernel {number};", "sm_90a", compiler)
    return (made.image, made.log) == (b"kernel %d;" % number * LONG, f"log of kernel {number};")


def program(number: int) -> bool:
    """A compiled program."""
    name = programs.name_of([f"program {number}"])
    found = programs.find(name)
    if found is None:
        found = Saved(module_of_sample().source, module_of_sample(), f"sm_{number}")
        programs.keep(name, found)
    return found.arch == f"sm_{number}" and found.text == module_of_sample().source


@functools.cache
def module_of_sample() -> manifest.Module:
    """A small program, read once."""
    return manifest.parse(SAMPLE.with_suffix(".cu").read_text(encoding="utf-8"))


def winner(number: int) -> bool:
    """The plan that won, of which each number has its own."""
    module = plan_of_sample()
    found = store.load_winner(module.program, f"card {number}", "none")
    ours = module.plans[number % len(module.plans)]
    if not found:
        store.keep_winner(module.program, f"card {number}", "none", (ours,))
    return not found or found == (ours,)


@functools.cache
def plan_of_sample() -> plan.Module:
    """The plans of a sample."""
    return plan.parse(SAMPLE.with_suffix(".plan").read_text(encoding="utf-8"))


USES: dict[str, Callable[[int], bool]] = {
    "grammar tables": grammar,
    "marks of checked texts": mark,
    "shared objects of the simulation": shared_object,
    "cubins": cubin,
    "programs": program,
    "tuned plans": winner,
}


def warm_up() -> None:
    """What a child need not do again: imports, and what the uses are compared with."""
    tree_of_guard(), module_of_sample(), plan_of_sample()


def log_row(log: Path, who: int, number: int) -> None:
    """Append the row of a writer to a log of trials, with a field of several lines."""
    row = [f"{who}:{number}", *[""] * (len(store.LOG_COLUMNS) - 2), 'tile "64",\n' * LONG]
    store.append_log(log, [row])


def rows_of(log: Path) -> list[str]:
    """The names of the rows of a log. Raises AssertionError for a row that no writer wrote."""
    with log.open(encoding="utf-8", newline="") as lines:
        head, *rows = csv.reader(lines)
    assert tuple(head) == store.LOG_COLUMNS
    assert all(len(row) == len(head) and row[-1] == 'tile "64",\n' * LONG for row in rows), "rows are mixed"
    return [row[0] for row in rows]


def unfinished() -> list[Path]:
    """What writers left that did not end."""
    root = cache_dir()
    return [*root.rglob(".tinyir-*")] if root is not None else []
