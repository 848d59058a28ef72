"""A model as a command reads it: text of a front end as it is, or an ONNX file or an archive of torch.export, which
becomes front-end JSON first."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from ..kit.cli import Session
from ..kit.diag import Diag, Refused, refuse
from ..kit.phrase import Listing, Phrase

IMPORTED = ("shape", "value", "state", "room")  # options that a text has no use for: it says these things itself
OF_ONNX = ("value", "state", "room")  # and those that an archive of torch.export has no use for
WRITTEN = Phrase(
    "leave the option out, and write in the text what it should say: sizes in the shapes of tensors, values as "
    "constants, states in the signature"
)
EXPORTED = Phrase("leave the option out, and export a module that has it: a number as a constant, a state as a buffer")


def shape_option(parser: argparse.ArgumentParser) -> None:
    """The options that fix sizes of an imported model's inputs, and values of an ONNX model's."""
    parser.add_argument(
        "--shape",
        metavar="NAME=SIZES",
        type=_shape,
        action="append",
        default=[],
        help="the shape of an input of an ONNX or .pt2 model, such as x=1,80,800 or x=N,80,800, or with the range of a "
        "symbol: x=N,80,L:1..512; may be repeated",
    )
    parser.add_argument(
        "--value",
        metavar="NAME=NUMBERS",
        type=_shape,
        action="append",
        default=[],
        help="make a constant of an input of an ONNX model, such as rate=16000; may be repeated",
    )
    state_options(parser)


def state_options(parser: argparse.ArgumentParser) -> None:
    """The options that say what of an ONNX model is a state."""
    parser.add_argument(
        "--state",
        metavar="INPUT=OUTPUT",
        type=_pair,
        action="append",
        default=[],
        help="the output of an ONNX model that is the next value of an input, beside those that are called so, such as "
        "past.0.key=present.0.key; may be repeated",
    )
    parser.add_argument(
        "--room",
        metavar="ROWS",
        type=int,
        default=0,
        help="how many rows a cache of an ONNX model has room for: it becomes a state, which grows in place",
    )


def _pair(word: str) -> tuple[str, str]:
    name, sign, output = word.partition("=")
    if not name or not output:
        raise argparse.ArgumentTypeError(f"{word!r} is not INPUT=OUTPUT")
    return name, output


def _shape(word: str) -> tuple[str, list[str]]:
    name, sign, sizes = word.rpartition("=")
    if not sign or not name:
        raise argparse.ArgumentTypeError(f"{word!r} is not NAME=NUMBERS")
    return name, [s.strip() for s in sizes.split(",")] if sizes else []


def read_source(session: Session, wants: str) -> str:
    """The text of a model: the input itself, or the front-end JSON of the ONNX file or the archive of torch.export that
    it is. Raises Refused."""
    from .. import front

    raw = session.read_bytes()
    if not front.is_onnx(raw) and not front.is_pt2(raw):
        unused = [f"--{option}" for option in IMPORTED if getattr(session.args, option, None)]
        if unused:
            raise _unused(unused, Phrase("models of ONNX and torch.export"), Phrase("text"), WRITTEN)
        return session.decode(raw, wants)
    session.text = session.timed("import", lambda: _json_of(session, raw))
    return session.text


def _unused(options: list[str], of: Phrase, given: Phrase, advice: Phrase) -> Refused:
    return refuse("E0018", options[0], options=Listing(options), of=of, given=given, advice=advice)


def must_hold(session: Session, diags: Sequence[Diag]) -> None:
    """Refuse on errors; keep the warnings that the front end has not given yet, with the places that it knows."""
    said = {(d.code, d.at) for d in session.notes}
    session.must_hold([d for d in diags if (d.code, d.at) not in said])


def _json_of(session: Session, raw: bytes) -> str:
    from .. import front

    shapes, values = (dict(getattr(session.args, key, [])) for key in ("shape", "value"))
    if front.is_pt2(raw):
        unused = [f"--{option}" for option in OF_ONNX if getattr(session.args, option, None)]
        if unused:
            raise _unused(unused, Phrase("models of ONNX"), Phrase("an archive of torch.export"), EXPORTED)
        return front.pt2_to_json(raw, _spelled(session), shapes)
    return front.onnx_to_json(
        raw,
        _spelled(session),
        shapes,
        values,
        Path(session.file).parent if session.file else None,
        dict(getattr(session.args, "state", [])),
        getattr(session.args, "room", 0),
        session.notes,
    )


def _spelled(session: Session) -> str:
    """How the text that is printed shall name the model's file: from the folder that the text will be in, else by its
    name alone."""
    if not session.file:
        return ""
    output = getattr(session.args, "output", None)
    folder = Path(output).parent if output and output != "-" else Path()
    path = Path(os.path.relpath(session.file, folder))
    return path.as_posix() if ".." not in path.parts else path.name
