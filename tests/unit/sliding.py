"""Random folds over windows, as region texts: convolutions of a group for each channel or of several, and pools, of one
to three axes, in both orders of dims, with what may follow them."""

from __future__ import annotations

import random
from dataclasses import dataclass

KINDS = ("depthwise", "grouped", "max", "average")


@dataclass(frozen=True, slots=True)
class Sliding:
    """A fold over windows of `window` taps, `spread` apart, every `steps` elements, of `groups` images of `sizes` each
    in a batch; `before` and `behind` are how much padding there is. Of a grouped convolution each group has `side`
    channels and makes `made`."""

    kind: str
    dtype: str
    batch: int
    groups: int
    side: int
    made: int
    sizes: tuple[int, ...]
    window: tuple[int, ...]
    steps: tuple[int, ...]
    spread: tuple[int, ...]
    before: tuple[int, ...]
    behind: tuple[int, ...]
    is_last: bool
    has_residual: bool

    @property
    def out(self) -> tuple[int, ...]:
        """The sizes of what is made."""
        reach = (d * (w - 1) + 1 for d, w in zip(self.spread, self.window))
        padded = (s + a + z for s, a, z in zip(self.sizes, self.before, self.behind))
        return tuple((p - r) // step + 1 for p, r, step in zip(padded, reach, self.steps))

    def text(self) -> str:
        """The region text: `x` is folded, with `w` where it is a convolution, `b` and `z` are added, `y` is made."""
        count = len(self.sizes)
        is_conv, is_grouped = self.kind in KINDS[:2], self.kind == "grouped"
        channels = ["i1", "i2"] if is_grouped else ["i1"]
        places = [f"s{n}" for n in range(count)]
        order = ["i0", *places, *channels] if self.is_last else ["i0", *channels, *places]
        size_of = {"i0": self.batch, "i1": self.groups, "i2": self.made, **dict(zip(places, self.out))}
        name_of = {axis: f"i{n}" for n, axis in enumerate(order)}
        taps = [f"k{n}" for n in range(count)]
        source, guards = [], []
        for n, place in enumerate(places):
            e = f"{self.steps[n]}*{name_of[place]} + {self.spread[n]}*{taps[n]} - {self.before[n]}"
            source.append(e)
            guards += [f"0 <= {e} < {self.sizes[n]}"] if self.before[n] or self.behind[n] else []
        group, one = name_of["i1"], name_of.get("i2", "")
        inner = f"{self.side}*{group} + k{count}" if is_grouped else group
        outer = f"{self.made}*{group} + {one}" if is_grouped else group
        image = ["i0", *source, inner] if self.is_last else ["i0", inner, *source]
        outside = "-inf" if self.kind == "max" else "0.0"
        element = f"x[{', '.join(image)}]" + (f" where {' and '.join(guards)} else {outside}" if guards else "")
        wide = "fp32" if self.dtype == "fp16" else self.dtype
        factor = f"w[{outer}, {f'k{count}' if is_grouped else '0'}, {', '.join(taps)}]"
        exact = f" : {wide}" if wide != self.dtype else ""
        folded = f"mul({element}, {factor}){exact}" if is_conv else element
        op, acc = ("max", self.dtype) if self.kind == "max" else ("sum", wide)
        axes = [f"{t}: {w}" for t, w in zip(taps, self.window)] + ([f"k{count}: {self.side}"] if is_grouped else [])
        made = self.groups * (self.made if is_grouped else 1)
        read = self.groups * (self.side if is_grouped else 1)

        def shape(channels: int, sizes: tuple[int, ...]) -> list[int]:
            return [self.batch, *sizes, channels] if self.is_last else [self.batch, channels, *sizes]

        tensors = {"x": shape(read, self.sizes)}
        if is_conv:
            tensors["w"] = [made, self.side if is_grouped else 1, *self.window]
        told = (
            ["i0", *(name_of[p] for p in places), outer]
            if self.is_last
            else ["i0", outer, *(name_of[p] for p in places)]
        )
        lines, value = [f"    %c = reduce {op} ({', '.join(axes)}) : {acc} {{ {folded} }}"], "%c"
        if is_conv:
            tensors["b"] = [made]
            axis = [n for n, a in enumerate(order) if a in channels]
            bias = f"b[{outer}]" if acc == self.dtype else f"cast(b[{outer}]) : {acc}"
            lines.append(f"    %d = add(%c, broadcast_in_dim({bias}, dims=[{', '.join(map(str, axis))}]))")
            value = "%d"
        if self.has_residual:
            tensors["z"] = shape(made, self.out)
            beside = f"z[{', '.join(told)}]"
            lines.append(f"    %e = add({value}, {beside if acc == self.dtype else f'cast({beside}) : {acc}'})")
            value = "%e"
        last = value if acc == self.dtype else f"cast({value}) : {self.dtype}"
        kinds = [f"  in {n} : {self.dtype}[{', '.join(map(str, s))}]" for n, s in tensors.items()]
        kinds.append(f"  out y : {self.dtype}[{', '.join(map(str, shape(made, self.out)))}]")
        axes = ", ".join(f"{name_of[a]}: {size_of[a]}" for a in order)
        text = ["tinyir 1.0 region\n\nmodel m", *kinds, "\nprogram m\n\nregion c", *kinds, f"  for {axes}", *lines]
        return "\n".join([*text, f"  yield y[{', '.join(told)}] = {last}\n"])


def drawn(seed: int) -> Sliding:
    """A small one, no side too short for its window."""
    draw = random.Random(seed)
    count = draw.choice([1, 2, 2, 2, 3])
    window, spread = (tuple(draw.randint(1, most) for _ in range(count)) for most in (4, 2))
    if max(window) == 1:
        window = (3,) * count
    kind = draw.choice(KINDS)
    before, behind = (tuple(draw.choice([0, 1, 1, 2]) for _ in range(count)) for _ in range(2))
    reach = [d * (w - 1) + 1 for d, w in zip(spread, window)]
    return Sliding(
        kind,
        draw.choice(["fp16", "fp16", "fp32"]),
        draw.randint(1, 2),
        draw.choice([1, 3, 4, 8, 16, 24]),
        draw.choice([1, 2, 4]),
        draw.choice([1, 2, 3]),
        tuple(max(r, draw.choice([4, 7, 8, 14, 16, 9])) for r in reach),
        window,
        tuple(draw.choice([1, 1, 2, 3]) for _ in range(count)),
        spread,
        tuple(min(p, r - 1) for p, r in zip(before, reach)),
        tuple(min(p, r - 1) for p, r in zip(behind, reach)),
        draw.random() < 0.5,
        draw.random() < 0.3,
    )
