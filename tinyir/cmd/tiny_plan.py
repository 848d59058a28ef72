"""tiny-plan: how each region becomes a kernel: tiles, stages, binding."""

from __future__ import annotations

import argparse
from typing import Sequence

from ..kit.cli import Notes, filter_main, parser_of, run
from ..lower import lowering_of
from .stage import language_of, read_module


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--arch", choices=("sm80", "sm90"), default="sm90", help="the GPU generation to plan for (default: sm90)")
    parser.add_argument("--device", choices=("a100", "h100"), help="the device model (default: a100 for sm80, h100 for sm90)")
    parser.add_argument("--explain", action="store_true", help="print the table of candidates instead of the plan")


def main(argv: Sequence[str] | None = None) -> int:
    """Read region text, print plan text (or, with --explain, the table of candidates); the exit code."""
    summary = "How each region becomes a kernel: tiles, stages, binding, chosen by the cost model."
    parser = parser_of("tiny-plan", summary, "region text")
    _options(parser)
    args = parser.parse_args(argv)
    if args.explain:
        return run("tiny-plan", args, lambda s: s.write(lowering_of("plan").explain(read_module(s, "region"), arch=args.arch, device=args.device)))

    def lower(module: object, args: argparse.Namespace, notes: Notes) -> object:
        if args.remarks:
            notes += lowering_of("plan").verdicts(module)
        return lowering_of("plan").lower(module, arch=args.arch, device=args.device)

    return filter_main(argv, "tiny-plan", summary, "region text", lambda s: read_module(s, "region"), lambda: language_of("plan"), lower, _options)
