"""tiny-import: a model in a binary form, ONNX or an archive of torch.export, as front-end JSON."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ..kit.cli import Session, parser_of, run
from ..kit.phrase import Phrase
from .source import read_source, shape_option


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    made = parser_of(
        "tiny-import",
        "An ONNX model or an archive of torch.export (.pt2) in; front-end JSON out. Weights stay in the model's file.",
        "the model",
        examples=(
            ("tiny-import model.onnx > model.json", "front-end JSON that points at the weights in model.onnx"),
            ("tiny-import --shape x=1,3,224,224 model.onnx -o model.json", "with the shape of an input settled"),
        ),
    )
    shape_option(made)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Read a model, print front-end JSON; the exit code."""
    return run("tiny-import", parser().parse_args(argv), _body)


def _body(session: Session) -> None:
    session.write(read_source(session, Phrase("an ONNX model, or an archive of torch.export")))
