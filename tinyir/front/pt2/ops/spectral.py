"""Fourier transforms by the names that Python has for them, and the windows of spectra."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....kit.phrase import Phrase
from ...program.fourier import LONGEST, fourier
from ...program.terms import MAX_KNOWN, Term
from ..call import Call
from ..complexes import Complex, partwise
from ..table import aten, of_complex
from .movement import padded

_FORMS = ("", "2", "n")


def _axes_and_lengths(call: Call, x: Term, form: str) -> tuple[list[int], list[int | None]]:
    """The axes of a transform in order, and the lengths that are stated for them."""
    if form == "":
        return [call.axis("dim", x.rank, -1)], [call.get("n")]
    sizes = call.get("s")
    named = call.axes("dim", x.rank)
    if named is None:
        count = len(sizes) if sizes is not None else 2 if form == "2" else x.rank
        named = list(range(x.rank - count, x.rank))
    return named, list(sizes) if sizes is not None else [None] * len(named)


def _length(call: Call, x: Term, axis: int, stated: Any) -> int:
    length = x.shape[axis].constant if stated in (None, -1) else stated
    if not isinstance(length, int) or not 0 < length <= LONGEST:
        shown = x.shape[axis] if length is None else length
        fault = Phrase("it has {length} places; known lengths up to {most} are supported", length=shown, most=LONGEST)
        raise call.fault(fault)
    return length


def _scale(call: Call, length: int, is_inverse: bool) -> float:
    mode = call.get("norm", "backward")
    if mode == "ortho":
        return 1 / math.sqrt(length)
    return 1 / length if (mode == "backward") is is_inverse else 1.0


def _transform(form: str, is_inverse: bool) -> Callable[[Call], Any]:
    def translate(call: Call) -> Any:
        x = call.args["self"]
        parts: Sequence[Term] = x.parts if isinstance(x, Complex) else [call.float_of(x)]
        for axis, stated in zip(*_axes_and_lengths(call, parts[0], form)):
            length = _length(call, parts[0], axis, stated)
            parts = fourier(call, parts, axis, length, is_inverse, False, _scale(call, length, is_inverse))
        return Complex(*parts)

    return translate


def _of_real(form: str) -> Callable[[Call], Any]:
    def translate(call: Call) -> Any:
        x = call.float_of(call.tensor("self"))
        axes, stated = _axes_and_lengths(call, x, form)
        parts: Sequence[Term] = [x]
        for number, axis in reversed(list(enumerate(axes))):
            length, is_last = _length(call, parts[0], axis, stated[number]), number == len(axes) - 1
            parts = fourier(call, parts, axis, length, False, is_last, _scale(call, length, False))
        return Complex(*parts)

    return translate


def _to_real(form: str) -> Callable[[Call], Any]:
    def translate(call: Call) -> Any:
        x = call.args["self"]
        parts: Sequence[Term] = x.parts if isinstance(x, Complex) else [call.float_of(x)]
        axes, stated = _axes_and_lengths(call, parts[0], form)
        for axis, own in zip(axes[:-1], stated):
            length = _length(call, parts[0], axis, own)
            parts = fourier(call, parts, axis, length, True, False, _scale(call, length, True))
        half = _length(call, parts[0], axes[-1], None)
        length = stated[-1] if stated[-1] not in (None, -1) else 2 * (half - 1)
        length = _length(call, parts[0], axes[-1], length)
        return fourier(call, parts, axes[-1], length, True, True, _scale(call, length, True))[0]

    return translate


for _form in _FORMS:
    for _inverse in (False, True):
        _name = f"fft_{'i' * _inverse}fft{_form}.default"
        aten(_name)(of_complex(_name)(_transform(_form, _inverse)))
    aten(f"fft_rfft{_form}.default")(_of_real(_form))
    aten(f"fft_irfft{_form}.default")(of_complex(f"fft_irfft{_form}.default")(_to_real(_form)))


@aten("fft_fftshift.default", "fft_ifftshift.default")
def shifted(call: Call) -> Any:
    """With the place 0 in the middle, or back."""
    x = call.tensor("self")
    axes = call.axes("dim", x.rank) or list(range(x.rank))
    sizes = [_length(call, x, a, None) for a in axes]
    is_back = call.target.startswith("fft_ifft")
    return call.op("Roll", x, shifts=[(n + 1) // 2 if is_back else n // 2 for n in sizes], axes=axes)


of_complex("fft_fftshift.default", "fft_ifftshift.default")(partwise)


@aten("stft.default", "stft.center")
def stft(call: Call) -> Any:
    """The transform of each stretch of a signal, times a window; stretches are `hop_length` apart."""
    x, length = call.tensor("self"), call.get("n_fft")
    hop, width = call.get("hop_length", length // 4), call.get("win_length", length)
    lines = call.float_of(x if x.rank == 2 else call.reshape(x, [1, *x.shape]))
    if call.get("center", False):
        lines = padded(call, lines, [length // 2, length // 2], call.get("pad_mode", "reflect"), 0)
    count = (lines.shape[1] - length) // hop + 1
    first = call.fn("mul", call.op("Iota", shape=[count, 1], axis=0, part="stretch"), hop, part="first")
    place = call.fn("add", first, call.op("Iota", shape=[1, length], axis=1, part="place"))
    parts: Sequence[Term] = [call.op("Gather", lines, place, axis=1)]
    if (shape := call.optional("window")) is not None:
        before = (length - width) // 2
        shape = padded(call, call.cast(shape, lines.dtype), [before, length - width - before], "constant", 0)
        parts = [call.fn("mul", parts[0], shape)]
    scale = 1 / math.sqrt(length) if call.get("normalized", False) else 1.0
    parts = fourier(call, parts, 2, _length(call, parts[0], 2, None), False, call.get("onesided", True), scale)
    sides = [call.transpose(part, [0, 2, 1]) for part in parts]
    sides = [side if x.rank == 2 else call.reshape(side, side.shape[1:]) for side in sides]
    if call.get("return_complex", False):
        return Complex(*sides)
    return call.op("Concat", *(call.reshape(side, [*side.shape, 1]) for side in sides), axis=sides[0].rank)


@of_complex("istft.default")
def istft(call: Call) -> Any:
    """A signal of the transforms of its stretches: where these overlap their sum, divided by that of the windows'
    squares."""
    given, length = call.args["self"].parts, call.get("n_fft")
    hop, width = call.get("hop_length", length // 4), call.get("win_length", length)
    if call.get("return_complex", False) or not isinstance(call.shape[-1].constant, int):
        raise call.fault(Phrase("its result is complex, or of a size that is a symbol"))
    sides = [part if part.rank == 3 else call.reshape(part, [1, *part.shape]) for part in given]
    count, dtype, onesided = sides[0].shape[2], given[0].dtype, call.get("onesided", True)
    scale = math.sqrt(length) / length if call.get("normalized", False) else 1 / length
    lines = fourier(call, sides, 1, _length(call, given[0], given[0].rank - 1, length), True, onesided, scale)[0]
    window = call.optional("window")
    shape = call.expand(call.known(1.0, dtype), [width]) if window is None else call.cast(window, dtype)
    before = (length - width) // 2
    shape = call.reshape(padded(call, shape, [before, length - width - before], "constant", 0), [length, 1])
    whole = (count - 1) * hop + length
    squares = call.expand(call.fn("mul", shape, shape), [length, count])
    sums = [call.op("Fold", part, size=[whole], stride=[hop], gives=dtype)
            for part in (call.fn("mul", lines, shape), squares)]  # fmt: skip
    start, wanted = length // 2 if call.get("center", True) else 0, call.shape[-1].constant
    pieces = [call.cut(part, part.rank - 1, start, start + wanted) for part in sums]
    found = call.fn("div", *pieces)
    missing = start + wanted - whole.constant if whole.constant is not None else 0
    found = call.op("Pad", found, pads=[0, missing], axes=[1], value=0) if missing > 0 else found
    return call.reshape(found, call.shape)


def _cosines(*factors: float) -> Callable[[Call, np.ndarray, int], np.ndarray]:
    def compute(call: Call, place: np.ndarray, last: int) -> np.ndarray:
        stated = [call.get(key, own) for key, own in zip(("alpha", "beta"), factors)] + [*factors[2:]]
        return sum((-1) ** n * f * np.cos(2 * math.pi * n * place / last) for n, f in enumerate(stated))

    return compute


def _kaiser(call: Call, place: np.ndarray, last: int) -> np.ndarray:
    beta = float(call.get("beta", 12.0))
    return np.i0(beta * np.sqrt(1 - (2 * place / last - 1) ** 2)) / np.i0(beta)


_WINDOWS: dict[str, Callable[[Call, np.ndarray, int], np.ndarray]] = {
    "hann": _cosines(0.5, 0.5),
    "hamming": _cosines(0.54, 0.46),
    "blackman": _cosines(0.42, 0.5, 0.08),
    "bartlett": lambda call, place, last: 1 - np.abs(2 * place / last - 1),
    "kaiser": _kaiser,
}
_OVERLOADS = ("default", "periodic", "periodic_alpha", "periodic_alpha_beta", "beta")


@aten(*(f"{name}_window.{overload}" for name in _WINDOWS for overload in _OVERLOADS))
def window(call: Call) -> Any:
    """A window of a known length; one of a period ends where it would begin again."""
    length = call.get("window_length")
    if not isinstance(length, int) or length > MAX_KNOWN:
        raise call.fault(Phrase("its length is {length}", length=length))
    last = length if call.get("periodic", True) else length - 1
    if length <= 1:
        return call.known(np.ones(length), call.dtype)
    return call.known(_WINDOWS[call.target.partition("_")[0]](call, np.arange(length), last), call.dtype)


@aten("fft_fftfreq.default", "fft_rfftfreq.default")
def frequencies(call: Call) -> Any:
    """The frequencies of a transform's places."""
    count, step = call.get("n"), float(call.get("d", 1.0))
    if not isinstance(count, int) or count > MAX_KNOWN:
        raise call.fault(Phrase("its length is {length}", length=count))
    found = np.fft.rfftfreq(count, step) if call.target.startswith("fft_r") else np.fft.fftfreq(count, step)
    return call.known(found, call.dtype)
