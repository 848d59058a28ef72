"""What `tinyc --paranoid` asks of each text on the way, beside what is asked by default: that it reads back as what was
lowered, that isl finds it to state what its program means, and that it computes, on random data, what the first text
computes."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from ..ir.model import Model
from ..kit.cli import Session, must_be_faultless
from ..kit.diag import Refused
from .diff import Side, diag_of, differences
from .feed import size_option
from .playback import PROGRAMS, model_of
from .stage import language_of

SIZES = (2, 3, 5, 7)  # of the symbols in turn, unless they are stated, or their ranges say otherwise


def paranoid_options(parser: argparse.ArgumentParser) -> None:
    """The options that ask for it."""
    parser.add_argument(
        "--paranoid",
        nargs="?",
        const="play",
        choices=("play", "sim"),
        help="play each text on random data and compare all values with those of the first; validate what was lowered; "
        "sim: also run the CUDA in the simulation",
    )
    size_option(parser)


class Paranoid:
    """The texts of one compile, each compared with the first."""

    def __init__(self, session: Session):
        self._session = session
        self._first: Side | None = None
        self._arrays: Mapping[str, Any] = {}
        self._sizes: Mapping[str, int] = {}
        self._played: Any = None

    def look_at(self, stage: str, module: Any) -> None:
        """One more text. Raises Refused (E1481 the first value that differs from that of the first text; what playback
        and simulation refuse), AssertionError where the text does not say what was lowered, which is a fault of
        ours."""
        language = language_of(stage)
        again = language.parse(language.show(module))
        if again != module:
            raise AssertionError(f"the {stage} text reads back as another module")
        must_be_faultless(self._session.timed(f"validate {stage}", lambda: language.validate(again)))
        self._session.timed(f"play {stage}", lambda: self._play(stage, again))
        if stage == "cu" and self._session.args.paranoid == "sim":
            self._session.timed("simulate", lambda: self._compare(Side("simulation", stage, again), "sim"))

    def _play(self, stage: str, module: Any) -> None:
        program = PROGRAMS[stage](module)
        if self._first is None:
            self._begin(Side(stage, stage, module))
        elif program != self._played:  # else its regions have been played
            self._compare(Side(stage, stage, module), "cpu")
        self._played = program

    def _begin(self, side: Side) -> None:
        """Play the first text, with small sizes where its symbols may have them, else with those of the shape set."""
        from ..runtime.arrays import sizes_for

        model, stated = model_of(side.stage, side.module), dict(self._session.args.size)
        try:
            self._draw(side, model, sizes_for(model, None, _small(model, stated)))
        except Refused:
            self._draw(side, model, sizes_for(model, self._session.args.shapes or None, stated))
        self._first = side

    def _draw(self, side: Side, model: Model, sizes: Mapping[str, int]) -> None:
        from ..play.roles import positive_inputs
        from ..runtime.arrays import random_arrays

        arrays = random_arrays(model, sizes, 1, positive_inputs(PROGRAMS[side.stage](side.module)))
        side.play(arrays, "cpu", self._session.args.arch, sizes)
        self._arrays, self._sizes = arrays, sizes

    def _compare(self, side: Side, device: str) -> None:
        from ..runtime.check import ATOL, RTOL

        assert self._first is not None
        side.play(self._arrays, device, self._session.args.arch, self._sizes)
        found = list(differences(self._first, side, RTOL, ATOL))
        assert found, f"{side.file} has no value of the first text"
        for before, difference in enumerate(found):
            if difference.wrong:
                raise Refused([diag_of(difference, self._first, side, before)])


def _small(model: Model, stated: Mapping[str, int]) -> dict[str, int]:
    """A size for each symbol: what is stated, else a small one, within its range."""
    return model.sizes_near(SIZES) | dict(stated)
