"""`tinyc --emit=host`: a program as C, with its kernels compiled and its weights beside it."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from ..ir import manifest
from ..kit.cli import Session
from ..kit.diag import Diag, refuse_all
from ..target.arch import ARCHS

HOST = "host"


def host_options(parser: argparse.ArgumentParser) -> None:
    """What may be asked of the C: which GPUs it runs on, which arrays it brings."""
    parser.add_argument(
        "--gpu",
        metavar="SM",
        type=_gpu,
        action="append",
        default=[],
        help="with --emit=host: a kind of GPU to compile the kernels for, such as sm_90a or sm_86; may be repeated "
        "(default: sm_90a for sm90, sm_80 for sm80)",
    )
    parser.add_argument(
        "--params",
        metavar="FILE",
        action="append",
        default=[],
        help="with --emit=host: arrays of inputs that the program shall hold, .npz or .safetensors; may be repeated",
    )
    parser.add_argument(
        "--weights",
        metavar="DIR",
        help="with --emit=host: the folder of the files that the text points at (default: that of the model, or this "
        "one)",
    )


def _gpu(word: str) -> str:
    if not re.fullmatch(r"sm_\d{2,3}[af]?", word):
        raise argparse.ArgumentTypeError(f"{word!r} is not a kind of GPU, such as sm_90a")
    return word


def _runs(launch: manifest.Launch, gpu: str) -> bool:
    """Whether code for the launch's generation runs on a kind of GPU."""
    return int(launch.arch.removeprefix("sm")) <= int(gpu.removeprefix("sm_").rstrip("af"))


def write_program(session: Session, module: manifest.Module, text: str) -> None:
    """Write the C, the header and the file of a program, where `-o` says or under the model's name, and print their
    paths. Raises Refused (E0009, E1745 a GPU that the kernels are not for, E1715 and E1716 the compiler, E17xx the
    weights)."""
    from ..host import kernels_of, write_host
    from ..host.spelling import name_of
    from ..runtime.arrays import read_arrays
    from ..runtime.compile import cubins_of
    from ..runtime.weights import read_weights

    args = session.args
    model = module.region.model
    usual = {ARCHS[launch.arch].target for launch in module.launches} or {"sm_80"}
    gpus = tuple(dict.fromkeys(args.gpu)) or (max(usual),)
    faults = [
        Diag("E1745", launch.name, {"kernel": launch.name, "arch": launch.arch, "gpu": gpu})
        for gpu in gpus
        for launch in module.launches
        if not _runs(launch, gpu)
    ]
    refuse_all(faults)
    params = read_arrays(args.params)
    folder = Path(args.weights) if args.weights else Path(session.file).parent if session.file else Path()
    weights = read_weights(model, folder, params) | params
    entries = kernels_of(module, weights)
    images = {}
    for gpu in gpus:
        found = session.timed("compile", lambda gpu=gpu: cubins_of(text, gpu, entries))
        images[gpu] = {name: cubin.image for name, cubin in found.items()}
    base = Path(args.output).with_suffix("") if args.output and args.output != "-" else Path(name_of(model.name))
    paths = session.timed("write", lambda: write_host(base, module, images, weights))
    args.output = None
    session.write("".join(f"{path}\n" for path in paths))
