"""What tiny-run and tiny-play share: the arrays that a program is fed, and the table of what came out."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..ir.model import Model
from ..kit.records import replace


def feed_options(
    parser: argparse.ArgumentParser,
    words: tuple[str, ...] = ("--inputs",),
    has_out: bool = True,
    seed: int | None = None,
) -> None:
    """The options that say where the arrays come from and, if `has_out`, go to. `seed` is that of random arrays when
    none is stated."""
    parser.add_argument(
        *words,
        dest="inputs",
        metavar="FILE",
        action="append",
        default=[],
        help="arrays by the signature's names: .npz, .safetensors, or NAME=FILE.npy; may be repeated",
    )
    parser.add_argument(
        "--weights",
        metavar="DIR",
        help="the folder of the files that the text points at (default: that of the text, or this one)",
    )
    parser.add_argument(
        "--random",
        metavar="SEED",
        type=int,
        default=seed,
        help=f"random arrays for what {words[0]} does not give" + ("" if seed is None else f" (default: {seed})"),
    )
    size_options(parser)
    if has_out:
        parser.add_argument("--out", metavar="FILE.npz", type=archive, help="write the outputs here")


def archive(word: str) -> str:
    """A file that arrays are written to."""
    if Path(word).suffix not in ("", ".npz"):
        raise argparse.ArgumentTypeError(f"{word!r} is of another format: arrays are written as FILE.npz")
    return word


def size_options(parser: argparse.ArgumentParser) -> None:
    """The options that say how large the symbols are."""
    parser.add_argument(
        "--shapes", metavar="NAME", help="the shape set that random arrays take their sizes from (default: the first)"
    )
    size_option(parser)


def size_option(parser: argparse.ArgumentParser) -> None:
    """The option that states the size of one symbol."""
    parser.add_argument(
        "--size",
        metavar="SYMBOL=N",
        type=_size,
        action="append",
        default=[],
        help="the size of a symbol that no array given settles; may be repeated",
    )


def _size(word: str) -> tuple[str, int]:
    symbol, _, size = word.partition("=")
    if not symbol or not size.isdigit():
        raise argparse.ArgumentTypeError(f"{word!r} is not SYMBOL=N")
    return symbol, int(size)


def arrays_for(model: Model, args: argparse.Namespace, program: Any) -> tuple[dict[str, Any], dict[str, int]]:
    """The input arrays by name: those of --inputs, of the file of --states where there is one, the weights that the
    text points at, the rest at random if asked, of
    the sizes that the others settle, and positive where `program` (as `playback.PROGRAMS` gives it) takes roots of
    them; and the sizes that are known beside them, of --size and, where arrays are drawn, of the shape set. Raises
    Refused (E17xx) when a file cannot be read or a size is missing."""
    from ..play.arrays import bind_symbols
    from ..play.roles import positive_inputs
    from ..runtime.arrays import random_arrays, read_arrays, sizes_for
    from ..runtime.weights import read_weights

    states = getattr(args, "states", None)
    given = read_arrays([*args.inputs, *([states] if states and Path(states).exists() else [])])
    folder = (
        Path(args.weights) if args.weights else Path(args.file).parent if args.file and args.file != "-" else Path()
    )
    given |= read_weights(model, folder, given)
    if args.random is None:
        return given, dict(args.size)
    settled = sizes_for(model, args.shapes, bind_symbols(model, given, dict(args.size), is_partial=True))
    rest = replace(model, inputs=tuple(t for t in model.inputs if t.name not in given))
    return random_arrays(rest, settled, args.random, positive_inputs(program)) | given, settled


def summary_of(outputs: Mapping[str, Any]) -> str:
    """A line an output: name, dtype, shape, least, mean and greatest element."""
    import numpy as np

    lines = []
    for name, array in outputs.items():
        wide = np.asarray(array).astype(np.float64)
        figures = f"min {wide.min():.6g}  mean {wide.mean():.6g}  max {wide.max():.6g}" if wide.size else "empty"
        lines.append(f"{name:<14} {array.dtype}{list(array.shape)}  {figures}")
    return "\n".join(lines) + "\n"
