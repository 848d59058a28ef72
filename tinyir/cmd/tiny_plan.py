"""tiny-plan: how each region becomes a kernel: tiles, stages, binding."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ..ir import plan
from ..kit.cli import Notes, filter_main, run
from ..kit.diag import Diag
from ..lower import lowering_of
from ..target.device import device_names
from .stage import language_of, read_module, stage_parser


def options(parser: argparse.ArgumentParser) -> None:
    """What may be asked of the plan stage."""
    parser.add_argument(
        "--arch", choices=("sm80", "sm90"), default="sm90", help="the GPU generation to plan for (default: sm90)"
    )
    parser.add_argument(
        "--device",
        choices=device_names(),
        help="the device model (default: a100 for sm80, h100 for sm90; for --tuned the GPU of this machine)",
    )
    parser.add_argument(
        "--math",
        choices=("tf32",),
        default="",
        help="let tensor cores round fp32 factors to 11 bits (default: as exact as fp32)",
    )
    parser.add_argument(
        "--atomics",
        choices=("unordered",),
        default="",
        help="let the updates of a scatter be folded in any order, where that changes the bits (default: the same at "
        "each run)",
    )
    parser.add_argument(
        "--invariant",
        action="store_true",
        help="give a row of a batch, the first axis of inputs and outputs, the same bits whatever the size of the "
        "batch: no plan is for some sizes of it alone",
    )
    parser.add_argument(
        "--shapes", metavar="NAME", default="", help="the shape set to rank plans for (default: the first)"
    )
    parser.add_argument(
        "--tuned",
        action="store_true",
        help="take plans that tiny-tune measured and kept, where it has any for these kernels, sizes and card",
    )


def chosen(args: argparse.Namespace) -> dict[str, Any]:
    """The options as keywords of the lowering, but for `--tuned`."""
    return {
        "arch": args.arch,
        "device": args.device,
        "fp32": args.math,
        "atomics": args.atomics,
        "invariant": args.invariant,
        "shapes": args.shapes,
    }


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    made = stage_parser(
        "tiny-plan",
        "How each region becomes a kernel: tiles, stages, binding, chosen by the cost model.",
        ("tiny-plan --explain --device h100 m.region", "the candidates of each kernel, with what bounds them"),
    )
    options(made)
    made.add_argument("--explain", action="store_true", help="print the table of candidates instead of the plan")
    made.add_argument("--all", action="store_true", help="with --explain: a row for each rejected candidate too")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Read region text, print plan text (or, with --explain, the table of candidates); the exit code."""
    args = parser().parse_args(argv)
    if args.explain:
        return run(
            "tiny-plan",
            args,
            lambda s: s.write(lowering_of("plan").explain(read_module(s, "region"), is_whole=args.all, **chosen(args))),
        )

    def lower(module: object, args: argparse.Namespace, notes: Notes) -> object:
        if args.remarks:
            notes += lowering_of("plan").verdicts(module, **chosen(args))
        planned = lowering_of("plan").lower(module, **chosen(args))
        return with_tuned(planned, args, notes) if args.tuned else planned

    return filter_main(args, "tiny-plan", lambda s: read_module(s, "region"), lambda: language_of("plan"), lower)


def with_tuned(planned: plan.Module, args: argparse.Namespace, notes: Notes) -> plan.Module:
    """The plans with those in place of the model's that were measured before; a remark for each, and W2104 for one that
    was kept by another version. Raises Refused (E1715 no compiler, E1705 sizes)."""
    from ..runtime.arrays import sizes_for
    from ..runtime.compile import find_compiler
    from ..runtime.cuda import find_gpu
    from ..tune.program import with_winners

    here = None if args.device else find_gpu()
    title = here[0] if here else lowering_of("plan").card_of(args.arch, args.device).title
    found = with_winners(planned, sizes_for(planned.program.model), title, find_compiler().name)
    result, winners, outdated = found
    notes += [Diag("W2104", one.name, {"kernel": one.name, "card": title}) for one in outdated]
    notes += [Diag("R3591", one.name, {"kernel": one.name, "card": title}) for one in winners]
    return result
