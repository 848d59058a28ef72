"""Run the ONNX backend suite through the front end and playback.

    python tests/onnx/suite.py [--op OP] [--scope in|stretch|out] [--stage tiny|region|cu] [--device sim|cuda|ptxas]
      [--part K/N] [--list]

Prints by op how many tests passed, gave wrong numbers (failed), broke down (crashed), were refused (and with which
codes), or are out of scope. `near` counts those whose only differences are that numbers of 16-bit floats are up to two
units in the last place away, or that numbers of wider ones are so against the greatest of their tensor: what the suite
expects there is NumPy's own rounding. Each text on the way is checked. With `--stage region` it is region text that is
played; with `--stage cu` the emitted CUDA runs on `--device`, or with `--device ptxas` it is only compiled, for every
architecture: a warning, a stack or a spill is a failure. Exit code 1 when a test failed or crashed.
"""

from __future__ import annotations

import argparse
import collections
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.onnx.cases import Case, folder_cases, node_cases  # noqa: E402
from tests.unit.emitted import complaints_of  # noqa: E402
from tinyir.front import json as front_json  # noqa: E402
from tinyir.front.onnx import to_json  # noqa: E402
from tinyir.ir import manifest  # noqa: E402
from tinyir.ir.pipeline import language_of  # noqa: E402
from tinyir.kit.diag import Refused  # noqa: E402
from tinyir.lower import lower_to  # noqa: E402
from tinyir.play import region as play_region  # noqa: E402
from tinyir.play import tiny as play_tiny  # noqa: E402
from tinyir.runtime.run import run as run_cuda  # noqa: E402
from tinyir.target.arch import ARCHS  # noqa: E402

PASSED, NEAR, FAILED, CRASHED, REFUSED, OUT = "passed", "near", "failed", "crashed", "refused", "out of scope"
UNITS = {
    "float16": 2 * 2.0**-10,
    "bfloat16": 2 * 2.0**-7,
    "float32": 2 * 2.0**-23,
    "float64": 2 * 2.0**-52,
}  # two units in the last place


def _launch(device: str) -> Callable[[manifest.Module, dict[str, np.ndarray]], dict[str, np.ndarray]]:
    """Runs the emitted CUDA on a device."""
    return lambda module, arrays: run_cuda(manifest.show(module), arrays, device=device, limit=60, module=module)[0]


PLAYERS = {"tiny": play_tiny.play, "region": play_region.play, "sim": _launch("sim"), "cuda": _launch("cuda")}
REGION = ("index", "poly", "region")
LOWERINGS = {"tiny": (), "region": REGION, "cu": (*REGION, "plan", "gpu", "cu")}


def run(case: Case, stage: str = "tiny", device: str = "sim") -> tuple[str, str]:
    """How one test ends at a stage, and why: the codes of a refusal, the difference of a failure. CUDA runs on
    `device`."""
    case = case.frozen()
    try:
        if device == "ptxas":
            complaints = [
                f"{name}: {c}"
                for name, arch in ARCHS.items()
                for c in complaints_of(manifest.show(lower(case, stage, name)), arch.target)
            ]
            return (FAILED, "; ".join(complaints)) if complaints else (PASSED, "")
        module = lower(case, stage)
        found = PLAYERS[device if stage == "cu" else stage](
            module, {name: _coded(array) for name, array in case.inputs.items()}
        )
        difference = compare([found[o.name] for o in case.model.graph.output], case)
        if difference and not compare([found[o.name] for o in case.model.graph.output], case, is_lenient=True):
            return NEAR, difference
        return (FAILED, difference) if difference else (PASSED, "")
    except Refused as refusal:
        return REFUSED, " ".join(sorted({d.code for d in refusal.diags if d.is_error})) + "  " + refusal.diags[0].why()
    except Exception as fault:  # noqa: BLE001 - what is counted here must not stop the count
        frames = traceback.extract_tb(fault.__traceback__)
        return CRASHED, f"{type(fault).__name__} at {Path(frames[-1].filename).name}:{frames[-1].lineno}: {fault}"


def lower(case: Case, stage: str, arch: str = "sm90") -> Any:
    """The module of a stage, every text on the way checked. Raises Refused (what a stage cannot do) and ValueError
    (what a check finds)."""
    module: Any = front_json.read(to_json(case.model.SerializeToString()))
    for step in ("tiny", *LOWERINGS[stage]):
        module = module if step == "tiny" else lower_to(step, module, arch)
        faults = [d for d in language_of(step).check(module) if d.is_error]
        if faults:
            raise ValueError(f"{step}: " + "; ".join(f"{d.code} {d.at}" for d in faults))
    return module


def compare(found: list[np.ndarray], case: Case, is_lenient: bool = False) -> str:
    """What differs, or an empty string; `is_lenient` lets pass what counts as near."""
    for k, (given, wanted) in enumerate(zip(found, case.outputs)):
        wanted = _coded(np.asarray(wanted))
        if given.shape != wanted.shape:
            return f"output {k}: shape {given.shape}, not {wanted.shape}"
        if given.dtype != wanted.dtype:
            return f"output {k}: dtype {given.dtype}, not {wanted.dtype}"
        if wanted.dtype.kind in "biu":
            differ = int((given != wanted).sum())
        else:
            wide, want = given.astype(np.float64), wanted.astype(np.float64)
            unit = UNITS.get(wanted.dtype.name, 0.0) if is_lenient else 0.0
            room = (
                unit * np.abs(want, where=np.isfinite(want), out=np.zeros_like(want)).max(initial=0.0)
                if wanted.dtype.itemsize > 2
                else 0.0
            )
            differ = int((~np.isclose(wide, want, max(case.rtol, unit), max(case.atol, room), equal_nan=True)).sum())
        if differ:
            at = np.unravel_index(np.argmax(given != wanted), wanted.shape) if wanted.ndim else ()
            return (
                f"output {k}: {differ} of {wanted.size} differ; at {list(map(int, at))} {given[at]} instead of "
                f"{wanted[at]}"
            )
    return ""


def _coded(array: Any) -> np.ndarray:
    """An array of a dtype that tiny has not, as texts keep it: small integers as i8 or u8, narrow floats as their
    bits."""
    array = np.asarray(array)
    name = array.dtype.name
    if name in ("int4", "int2", "uint4", "uint2"):
        return array.astype(np.uint8 if name[0] == "u" else np.int8)
    if name in ("float8_e4m3fnuz", "float8_e5m2fnuz", "float4_e2m1fn", "float8_e8m0fnu"):
        return array.view(np.uint8)
    return array


def all_cases() -> list[Case]:
    """The node tests and the converted PyTorch ones."""
    import onnx

    wheel = Path(onnx.__file__).parent / "backend" / "test" / "data"
    return [*node_cases(), *folder_cases(wheel / "pytorch-converted"), *folder_cases(wheel / "pytorch-operator")]


def main() -> int:
    """Run what the arguments choose and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--op", action="append", help="only tests of this op; may be repeated")
    parser.add_argument("--scope", choices=("in", "stretch", "out"), help="only tests of this scope")
    parser.add_argument(
        "--stage", choices=tuple(LOWERINGS), default="tiny", help="the text that is checked and played (default: tiny)"
    )
    parser.add_argument(
        "--device",
        choices=("sim", "cuda", "ptxas"),
        default="sim",
        help="where CUDA runs, or that it is compiled (default: sim)",
    )
    parser.add_argument(
        "--part",
        default="0/1",
        metavar="K/N",
        help="every N-th test from the K-th on, so that N processes share the suite",
    )
    parser.add_argument("--list", action="store_true", help="a line for each test that did not pass")
    args = parser.parse_args()
    cases = [c for c in all_cases() if (not args.op or c.op in args.op) and args.scope in (None, c.scope)]
    first, step = map(int, args.part.split("/"))
    return report(cases[first::step], args.list, args.stage, args.device)


def report(cases: list[Case], is_listed: bool, stage: str, device: str = "sim") -> int:
    """Run the cases and print the table; 1 when a test failed or crashed."""
    table: dict[tuple[str, str], collections.Counter[str]] = collections.defaultdict(collections.Counter)
    codes: dict[tuple[str, str], set[str]] = collections.defaultdict(set)
    total: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for case in cases:
        outcome, why = run(case, stage, device)
        if outcome == REFUSED:
            codes[case.scope, case.op] |= set(why.split("  ")[0].split())
            outcome = OUT if case.scope == "out" else REFUSED
        table[case.scope, case.op][outcome] += 1
        total[case.scope][outcome] += 1
        if is_listed and outcome not in (PASSED, OUT):
            print(f"{outcome:<9} {case.scope:<8} {case.op:<20} {case.name}: {why[:300]}")
    words = (PASSED, NEAR, FAILED, CRASHED, REFUSED, OUT)
    print(f"{'scope':<8} {'op':<28}" + "".join(f"{w:>13}" for w in words) + "  codes")
    order = ("in", "stretch", "out")
    for (scope, op), counts in sorted(table.items(), key=lambda kv: (order.index(kv[0][0]), kv[0][1])):
        print(
            f"{scope:<8} {op:<28}"
            + "".join(f"{counts[w] or '':>13}" for w in words)
            + f"  {' '.join(sorted(codes[scope, op]))}"
        )
    for scope in order:
        print(
            f"{scope:<8} {'all ' + str(sum(total[scope].values())):<28}"
            + "".join(f"{total[scope][w] or '':>13}" for w in words)
        )
    return int(any(total[s][FAILED] or total[s][CRASHED] for s in order))


if __name__ == "__main__":
    sys.exit(main())
