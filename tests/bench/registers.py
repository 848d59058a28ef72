"""What a family declares of registers beside what the compiler takes.

    python tests/bench/registers.py [--shapes 40] [--most 8] [--jobs 2] [--seconds 300] [--out registers.json]
    python tests/bench/registers.py --sample 60 [--seed 1] [--seconds 300] [--out registers.json]

Needs a CUDA compiler and no GPU. Every case of every family, and at most `--most` of the plans that a tuner may measure
at each shape of `plans.py`, for sm80 and sm90. Each kernel is compiled twice: as emitted, which holds contractions
to what they declare, and without a limit. Prints a summary of each family; the JSON holds every kernel.

With `--sample 60 --seed 1` that many kernels in their place, drawn from all plans that are kept at the shapes of the
benches of products, windows, attention and memory-bound ops: a shape, then a plan of it.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench import attention, memory, memory_ops, windows  # noqa: E402
from tests.bench.plans import shapes  # noqa: E402
from tests.unit.families import FAMILIES, family  # noqa: E402
from tests.unit.test_needs import declared, kept_at  # noqa: E402
from tests.unit.test_registers import compilers, kept_of, kept_of_longest, usage  # noqa: E402
from tinyir.ir import gpu, plan  # noqa: E402
from tinyir.ir.gpu import nodes  # noqa: E402
from tinyir.kernels.resources import taken_by, threads_of  # noqa: E402
from tinyir.lower import gpu as to_gpu  # noqa: E402

Kept = tuple[plan.Module, tuple[plan.Plan, ...]]
Row = dict[str, Any]


def rows_of(case: str, module: gpu.Module, limit: float) -> Iterator[Row]:
    """The rows of a text's kernels."""
    launches = [launch for launch in module.launches if not getattr(launch, "serves", "")]
    for one, kernel in zip(module.plans.plans, launches, strict=True):
        if time.time() > limit:
            return
        if not isinstance(kernel, nodes.Kernel):
            continue
        needs = declared(module.plans.program, one)
        free = replace(module, launches=tuple(replace(k, regs=0) if k is kernel else k for k in module.launches))
        held, loose = (usage(text, kernel.name, compilers()[0]) for text in (module, free))
        yield {
            "case": case,
            "arch": one.arch,
            "algo": one.algo,
            "plan": plan.show_plan(one),
            "threads": threads_of(one),
            "resident": taken_by(one, needs).occupancy,
            "declared": needs.registers,
            "accumulators": needs.accumulators,
            "smem": needs.smem,
            "limit": kernel.regs,
            "as emitted": (held.registers, held.spill_stores + held.spill_loads),
            "free": (loose.registers, loose.spill_stores + loose.spill_loads),
        }


def measured(job: tuple[str, str, dict[str, int], int, float]) -> list[Row]:
    """The rows of a family's case, or of a shape; none once time is up."""
    case, arch, sizes, most, limit = job
    if time.time() > limit:
        return []
    if not arch:
        return list(rows_of(case, gpu.parse(family(case).kernels), limit))
    chosen, plans = kept_at(arch, sizes)
    step = max(1, len(plans) // most)
    found: list[Row] = []
    for one in plans[::step][:most]:
        found += rows_of(case, to_gpu.lower(replace(chosen, plans=(one,))), limit)
    return found


def benches() -> list[tuple[str, Callable[[], Kept]]]:
    """The shapes of all benches of kernels, and what makes the plans that are kept there."""
    found: list[tuple[str, Callable[[], Kept]]] = [
        (f"product {sizes}", partial(kept_at, arch, sizes)) for sizes in shapes(40, 20) for arch in ("sm90", "sm80")
    ]
    for layer in windows.LAYERS:
        for batch in (1, 8, 32):
            for layout in (windows.LAST, windows.FIRST):
                case = windows.Case(batch, *layer, layout)
                found.append((str(case), lambda case=case: kept_of_longest(windows.module_of(case))))
    for one in attention.cases():
        if not one.extra:
            found.append((one.name, partial(kept_of, attention.model_of(one))))
    for op, row in memory_ops.OPS.items():
        for shape in filter(row.is_for, memory.SHAPES):
            case = memory_ops.Case(op, "fp16", shape, False)
            found.append((f"{op} {shape}", lambda case=case: kept_of(memory_ops.model_of(case))))
    return found


def drawn(count: int, seed: int, limit: float) -> Iterator[Row]:
    """The rows of this number of kernels."""
    draw, every = random.Random(seed), benches()
    while count and time.time() < limit:
        name, made = draw.choice(every)
        module, plans = made()
        if plans:
            one = draw.choice(plans)
            yield from rows_of(name, to_gpu.lower(replace(module, plans=(one,))), limit)
            count -= 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", type=int, default=40)
    parser.add_argument("--most", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default="")
    options = parser.parse_args()
    limit = time.time() + options.seconds
    jobs = [(name, "", {}, options.most, limit) for name in FAMILIES]
    jobs += [
        ("x".join(map(str, sizes.values())), arch, sizes, options.most, limit)
        for sizes in shapes(options.shapes, 20)
        for arch in ("sm90", "sm80")
    ]
    if options.sample:
        rows = list(drawn(options.sample, options.seed, limit))
    else:
        with ProcessPoolExecutor(options.jobs) as pool:
            rows = [row for rows in pool.map(measured, jobs) for row in rows]
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["arch"], row["algo"]].append(row)
    print(f"{'':32}{'kernels':>8}{'under':>7}{'over 16':>9}{'spills':>8}{'free spills':>12}")
    for (arch, algo), found in sorted(groups.items()):
        more = [row["declared"] - row["as emitted"][0] for row in found]
        print(
            f"{arch + ' ' + algo:32}{len(found):8}{sum(m < 0 for m in more):7}{sum(m > 16 for m in more):9}"
            f"{sum(row['as emitted'][1] > 0 for row in found):8}{sum(row['free'][1] > 0 for row in found):12}"
        )
    spread = sorted(row["declared"] - row["as emitted"][0] for row in rows)
    print("declared less taken:", " ".join(map(str, spread)))
    if options.out:
        Path(options.out).write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
