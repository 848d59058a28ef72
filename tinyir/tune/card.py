"""The GPU that candidates are tried on."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..ir import manifest
from ..runtime.abi import stored
from ..runtime.bench import measure
from ..runtime.compile import Usage, cubins_of, find_compiler, usage_of
from ..runtime.cuda import CudaDevice
from ..runtime.program import Program
from .trial import Emitted

SECONDS = 0.15  # of timed runs a candidate
WARM_SECONDS = 0.02


class GpuCard:
    """One GPU for the whole of a tuning, a candidate timed for this number of seconds; `close` gives it back. Raises
    Refused (E1718 no GPU, E1715 no compiler)."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self.compiler = find_compiler().name
        self._device = CudaDevice()
        self.name = self._device.description.split(" (", 1)[0]
        self.generation = "sm90" if self._device.capability >= (9, 0) else "sm80"
        self._program: Program | None = None

    def compile(self, text: str) -> Mapping[str, Usage]:
        """Compile a text for this GPU, or take it from the cache; what ptxas says of its kernels. Raises Refused
        (E1715, E1716)."""
        return usage_of(*cubins_of(text, self._device.arch, jobs=1).values())

    def outputs(
        self, emitted: Emitted, sizes: Mapping[str, int], arrays: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Load the candidate and run it once on the arrays. Raises Refused (E1717, E1719, E1730)."""
        module = emitted.module
        assert isinstance(module, manifest.Module)
        if self._program is not None:
            self._program.release()
            self._program = None
        self._program = Program(self._device, emitted.text, module, sizes)
        self._program.upload({t.name: stored(t, arrays[t.name]) for t in module.region.model.inputs})
        self._program.run()
        return self._program.outputs()

    def time(self) -> float:
        """Microseconds of the median of what was run last, each run from a cold L2 cache. Raises Refused (E1730)."""
        program = self._program
        assert program is not None, "outputs was not asked for"
        timing = measure(self._device, len(program.launches), program.enqueue, None, None, self._seconds, WARM_SECONDS)
        return timing.median * 1e6

    def close(self) -> None:
        """Give the GPU back."""
        self._program = None
        self._device.release()
