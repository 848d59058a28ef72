"""The twins of the loads of windows (im2col) against NumPy: where the corner walks, what an offset adds, what is zero.

The windows of these tensors begin and end otherwise on each side of each axis, so that exchanged axes or corners show.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace

import numpy as np
import pytest

from tinyir.runtime.device import Box, Buffer, Scalar, Walk
from tinyir.runtime.mapped import corners_of
from tinyir.sim.host import COMPILERS

from .simulated import Trial, fault_of
from .test_sim_copies import laid, numbers, span_for

pytestmark = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")


@dataclass(frozen=True, slots=True)
class Load:
    """Windows of a tensor, this number of them from the number `first` on, at these offsets, and channels from one on;
    outermost axis first."""

    shape: tuple[int, ...]
    walk: Walk
    first: int
    offsets: tuple[int, ...]
    channel: int
    box: tuple[int, int]

    def __str__(self) -> str:
        numbers_ = (*self.shape, self.first, *self.offsets, self.channel)
        return " ".join(map(str, numbers_))

    @property
    def corner(self) -> tuple[int, ...]:
        """Image and place of the first window's corner."""
        image, *at = np.unravel_index(self.first, (1 << 20, *self.walk.counts))
        return (int(image), *(int(p) * s + low for p, s, low in zip(at, self.walk.steps, self.walk.low)))

    def wanted(self) -> np.ndarray:
        """The box, zeros outside of the tensor."""
        tensor, found = numbers(self.shape), np.zeros(self.box, np.uint16)
        for row in range(self.box[0]):
            image, *at = replace(self, first=self.first + row).corner
            place = [a + o for a, o in zip(at, self.offsets)]
            if image < self.shape[0] and all(0 <= p < size for p, size in zip(place, self.shape[1:-1])):
                channels = tensor[(image, *place)][self.channel : self.channel + self.box[1]]
                found[row, : channels.size] = channels
        return found

    @property
    def map(self) -> tuple:
        """As `launched` takes it."""
        sides = (self.box[0], *(1,) * len(self.offsets), self.box[1])
        return ("T", sides, span_for(self.box), self.walk)


LOADS = [
    Load((2, 9, 16), Walk((7,), (-1,), (1,)), 3, (2,), 0, (8, 16)),
    Load((3, 12, 24), Walk((6,), (-2,), (2,)), 5, (3,), 16, (8, 16)),
    Load((2, 5, 6, 64), Walk((5, 6), (-1, -1), (1, 1)), 0, (0, 0), 0, (64, 64)),
    Load((2, 5, 6, 64), Walk((5, 6), (-1, -1), (1, 1)), 17, (2, 1), 0, (64, 64)),
    Load((3, 9, 7, 40), Walk((4, 3), (0, -3), (2, 3)), 8, (1, 4), 32, (32, 32)),
    Load((2, 7, 11, 64), Walk((3, 9), (-2, 1), (3, 1)), 20, (4, 2), 0, (40, 64)),
    Load((1, 3, 4, 32), Walk((1, 2), (-2, -1), (1, 2)), 0, (6, 3), 0, (16, 32)),
    Load((2, 3, 4, 5, 16), Walk((2, 4, 3), (-1, 0, -1), (2, 1, 2)), 7, (1, 2, 3), 0, (24, 16)),
]


def load_of_windows(load: Load) -> Trial:
    """What one load leaves in shared memory."""
    wanted = laid(load.wanted(), span_for(load.box))
    image, *at = load.corner
    given = {"bytes": wanted.nbytes, "channel": load.channel, "image": image}
    given |= {f"at{n}": v for n, v in enumerate(at)} | {f"off{n}": v for n, v in enumerate(load.offsets)}
    axes = range(len(at))[::-1]
    places = ", ".join(["channel", *(f"at{n}" for n in axes), "image", *(f"off{n}" for n in axes)])
    code = f"""extern "C" __global__ void k(const __grid_constant__ tensor_map map, const fp16 *T, unsigned short *raw, {", ".join(f"int {n}" for n in given)}) {{
  extern __shared__ __align__(1024) unsigned char smem[];
  __shared__ unsigned long long full;
  if (threadIdx.x == 0) {{ mbarrier_init(&full, 1); fence_mbarrier_init(); }}
  __syncthreads();
  if (threadIdx.x == 0) {{ mbarrier_expect(&full, bytes); tma_load_windows_{len(load.shape)}d(smem, &map, &full, {places}); }}
  mbarrier_wait(&full, 0);
  for (int i = threadIdx.x; i < bytes / 2; i += 32) raw[i] = ((unsigned short *)smem)[i];
}}"""  # noqa: E501
    how = {
        "maps": {"m": load.map},
        "scalars": [Scalar(v, 4) for v in given.values()],
        "block": (32,),
        "shared": wanted.nbytes,
    }
    return Trial(code, {"T": numbers(load.shape)}, {"raw": wanted}, how)


def multicast_of_windows(load: Load) -> Trial:
    """Each of two blocks loads a box for both, the second that behind the first."""
    loads = [replace(load, first=load.first + load.box[0] * block) for block in range(2)]
    size, rank = load.box[0] * load.box[1], len(load.shape)
    both = np.stack([laid(one.wanted(), span_for(one.box)) for one in loads])
    calls = []
    for block, one in enumerate(loads):
        image, *at = one.corner
        places = ", ".join(map(str, [one.channel, *at[::-1], image, *one.offsets[::-1]]))
        calls.append(
            f"if (rank == {block}) tma_multicast_windows_{rank}d(smem + {2 * size * block}, &map, &full, {places}, 3);"
        )
    code = f"""extern "C" __global__ void __cluster_dims__(2, 1, 1) k(const __grid_constant__ tensor_map map, const fp16 *T, unsigned short *raw) {{
  extern __shared__ __align__(1024) unsigned char smem[];
  __shared__ unsigned long long full;
  const int rank = (int)cluster_rank();
  if (threadIdx.x == 0) {{ mbarrier_init(&full, 1); fence_mbarrier_init(); }}
  cluster_barrier();
  if (threadIdx.x == 0) {{
    mbarrier_expect(&full, {4 * size});
    {" ".join(calls)}
  }}
  mbarrier_wait(&full, 0);
  for (int i = threadIdx.x; i < {2 * size}; i += 32) raw[{2 * size} * rank + i] = ((unsigned short *)smem)[i];
  cluster_barrier();
}}"""  # noqa: E501
    return Trial(
        code,
        {"T": numbers(load.shape)},
        {"raw": np.stack([both, both])},
        {"maps": {"m": load.map}, "grid": (2,), "block": (32,), "shared": 4 * size},
    )


MULTICASTS = [
    Load((4, 9, 16), Walk((7,), (-1,), (1,)), 0, (1,), 0, (16, 16)),
    Load((2, 5, 6, 64), Walk((5, 6), (-1, -1), (1, 1)), 0, (2, 0), 0, (16, 64)),
    Load((2, 3, 4, 5, 16), Walk((2, 4, 3), (-1, 0, -1), (2, 1, 2)), 0, (1, 1, 1), 0, (16, 16)),
]


def test_an_offset_is_added_to_every_window() -> None:
    """The same windows from one row further on are what the offset of one row gives."""
    whole = Load((1, 6, 4, 16), Walk((4, 4), (0, 0), (1, 1)), 0, (2, 0), 0, (16, 16)).wanted()
    assert (whole == numbers((1, 6, 4, 16))[0, 2:].reshape(16, 16)).all()


BOXED = "_4d(smem, &map, &full, 0, 0, 0, 0)"


@pytest.mark.parametrize(
    "good, bad, operand",
    [
        ("channel, at1, ", "channel, 1 + at1, ", "corner"),
        ("off1, off0);", "off1, 256);", "offset"),
        ("off1, off0);", "off1, -1);", "offset"),
        ("4d(smem, ", "4d(smem + 64, ", "to"),
        ("_windows_4d(smem, &map, &full, channel, at1, at0, image, off1, off0)", BOXED, "map"),
    ],
)  # fmt: skip
def test_faults_of_a_load_of_windows_are_caught(good: str, bad: str, operand: str) -> None:
    trial = load_of_windows(LOADS[4])
    assert good in trial.code
    fault = fault_of(trial.code.replace(good, bad), trial.inputs, trial.wanted, **trial.how)
    assert (fault.code, fault.facts["operand"]) == ("E1761", operand)


def test_corners_are_as_far_from_the_ends_as_the_driver_counts() -> None:
    """Asymmetric windows of an image of 9 x 7: the last corner is left of the last element by what the driver is
    told."""
    box = Box(Buffer("T", 0, 1, 2, 0), "fp16", (3, 9, 7, 40), (32, 1, 1, 32), 64, Walk((4, 3), (0, -3), (2, 3)))
    assert corners_of(box) == ((0, -3), (0 + 3 * 2 - 8, -3 + 2 * 3 - 6))
