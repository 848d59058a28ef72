"""Two texts of any stages on the same arrays: the first value that differs, where and by how much (seed 001 section
13). Texts that contain kernels are simulated, unless playback is asked for: then the result says that no kernel ran."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..kit.cli import Session
from ..kit.diag import Diag, Refused, refuse
from ..kit.records import dataclass, field
from .feed import arrays_for
from .playback import PROGRAMS, model_of, play, simulate
from .stage import any_module

if TYPE_CHECKING:
    import numpy as np

    from ..runtime.check import Difference


KERNELS = ("gpu", "cu")
COMPUTES_ELSE = "E1685"


@dataclass(slots=True)
class Side:
    """One of the two texts: its file, stage and checked module; its values in the order of the program, then its
    outputs."""

    file: str
    stage: str
    module: Any
    values: dict[str, list[np.ndarray]] = field(default_factory=dict)
    outputs: dict[str, np.ndarray] = field(default_factory=dict)

    def play(self, arrays: Mapping[str, Any], device: str, arch: str, sizes: Mapping[str, int]) -> None:
        """Fill in values and outputs. In simulation there are outputs only."""
        if device == "sim" or device == "auto" and self.has_kernels:
            self.outputs = simulate(self.stage, self.module, arrays, arch, sizes)
            return
        foreign = self._foreign()

        def watch(name: str, array: np.ndarray) -> None:
            if name not in foreign:
                self.values.setdefault(name, []).append(array)

        self.outputs = play(self.stage, self.module, arrays, watch, sizes)

    @property
    def has_kernels(self) -> bool:
        """Whether the text says what each thread does."""
        return self.stage in KERNELS

    def _foreign(self) -> set[str]:
        """Values that have the name of an output but are not it."""
        if self.stage not in ("tiny", "index", "poly"):
            return set()
        program = PROGRAMS[self.stage](self.module)
        results = program.results if self.stage == "tiny" else program.tiny.results
        return {r.output for r in results if r.output != r.value}


def diff(session: Session) -> str:
    """Play both texts of `--diff`; what to print when they agree. Raises Refused (E1481 the first value that differs,
    E1482 nothing to compare, and what reading and playing refuse)."""
    first, second = (_read(session, file) for file in session.args.diff)
    session.args.file = first.file
    arrays, sizes = arrays_for(model_of(first.stage, first.module), session.args, PROGRAMS[first.stage](first.module))
    for side in (first, second):
        session.timed(f"play {side.stage}", lambda: side.play(arrays, session.args.device, session.args.arch, sizes))  # noqa: B023
    found = list(differences(first, second, session.args.rtol, session.args.atol))
    if not found:
        raise refuse("E1482", first=_shown(first.file), second=_shown(second.file))
    for before, difference in enumerate(found):
        if difference.wrong:
            raise Refused([diag_of(difference, first, second, before)])
    most = max(found, key=lambda d: d.largest)
    said = f"largest difference {most.largest:.3g} in {most.tensor}" if most.largest else "no difference"
    said += "".join(f"; {words}" for words in (_ran(s, session.args.device) for s in (first, second)) if words)
    return (
        f"same  {len(found)} value{'' if len(found) == 1 else 's'}  (rtol {session.args.rtol:g}, atol "
        f"{session.args.atol:g}; {said})\n"
    )


def _read(session: Session, file: str) -> Side:
    session.args.file = file
    language, module = any_module(session)
    session.must_hold([d for d in language.check(module) if d.code != COMPUTES_ELSE])  # that is what is asked here
    return Side(file, language.STAGE, module)


def differences(first: Side, second: Side, rtol: float, atol: float) -> Iterator[Difference]:
    """One for each value and output of both, in the order of the first."""
    from ..runtime.check import compare

    for left, right in (
        (first.values, second.values),
        ({n: [a] for n, a in first.outputs.items()}, {n: [a] for n, a in second.outputs.items()}),
    ):
        for name in left:
            if left is first.values and name in first.outputs:
                continue
            for array in left[name]:
                for other in (o for o in right.get(name, ()) if o.shape == array.shape):
                    yield compare({name: other}, {name: array}, rtol, atol)[0]


def diag_of(found: Difference, first: Side, second: Side, before: int) -> Diag:
    """E1481: two texts that were played differ in a value; `before` of the program's values before it agree."""

    point = ", ".join(map(str, found.index))
    files = {"first": _shown(first.file), "second": _shown(second.file)}
    counts = {
        "wrong": found.wrong,
        "total": found.total,
        "largest": f"{found.largest:.6g}",
        "before": before,
        "rtol": found.rtol,
        "atol": found.atol,
    }
    return Diag(
        "E1481", found.tensor, {"point": point, "left": found.expected, "right": found.given, **files, **counts}
    )


def _ran(side: Side, device: str) -> str:
    """How the kernels of a text ran; empty where it has none and was played."""
    if device == "sim" or device == "auto" and side.has_kernels:
        return f"{_shown(side.file)} simulated"
    return f"the kernels of {_shown(side.file)} were not run, only its regions" if side.has_kernels else ""


def _shown(file: str) -> str:
    return "<stdin>" if file == "-" else Path(file).name
