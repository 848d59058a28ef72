"""tiny-region: poly text in, region text out."""

from __future__ import annotations

import json
import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from typing import Any

from ..ir.tiny import MustFuse
from .stage import stage_filter, stage_parser

NAME = re.compile(r'\s*(%?)("(?:[^"\\]|\\.)*")\s*|([^,"]+)')  # as tiny text writes it, or bare


def options(parser: ArgumentParser) -> None:
    """What may be asked of the region stage."""
    parser.add_argument(
        "--distribute",
        action="store_true",
        help="take common factors out of sums of floats too, which rounds elsewhere",
    )
    parser.add_argument(
        "--must-fuse",
        metavar="NAMES",
        type=_values,
        action="append",
        default=[],
        help="ops or values that one kernel must compute, such as gemm,relu; what forbids it is an error; may be "
        "repeated",
    )


def _values(word: str) -> MustFuse:
    found = [(sign, quoted, bare.strip()) for sign, quoted, bare in NAME.findall(word)]
    names = [sign + json.loads(quoted) if quoted else bare for sign, quoted, bare in found if quoted or bare]
    if not names:
        raise ArgumentTypeError(f"{word!r} names no value")
    return MustFuse(tuple(names))


def chosen(args: Namespace) -> dict[str, Any]:
    """The options as keywords of the lowering."""
    return {"is_distributed": args.distribute, "must_fuse": tuple(args.must_fuse)}


def parser() -> ArgumentParser:
    """The options of the command."""
    made = stage_parser(
        "tiny-region",
        "What shares a kernel: one region, one kernel.",
        (
            "tiny-region --remarks --must-fuse gemm,relu m.poly -o m.region",
            "with a demand; say what was fused and what not",
        ),
    )
    options(made)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the filter; the exit code."""
    return stage_filter(argv, parser(), chosen)
