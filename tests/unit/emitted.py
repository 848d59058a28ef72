"""Region text to a kernel that runs: what the tests of gpu and CUDA text share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tinyir.ir import gpu, manifest, plan, region
from tinyir.kernels.resources import stack_of
from tinyir.lower import cu as to_cu
from tinyir.lower import gpu as to_gpu
from tinyir.lower import plan as to_plan
from tinyir.play.arrays import bind_symbols
from tinyir.play.region import play
from tinyir.runtime.compile import Compiler, cubin_of, find_compiler, find_nvrtc, usage_of
from tinyir.runtime.program import Program
from tinyir.sim.launch import SimDevice
from tinyir.target.arch import ARCHS

from .checked import check_gpu


def region_text(tensors: str, body: str) -> str:
    """A region text of one region `r`. `tensors` are its `in` and `out` lines, `body` its `for` and what follows, a
    line each."""
    lines = ["  " + line.strip() for line in tensors.strip().splitlines()]
    text = "\n".join(
        [
            "tinyir 1.0 region",
            "",
            "model r",
            *lines,
            "",
            "program r",
            "",
            "region r",
            *lines,
            *("  " + b.strip() for b in body.strip().splitlines()),
        ]
    )
    module = region.parse(text + "\n")
    assert [d for d in region.check(module) if d.is_error] == []
    return region.show(module)


def planned(text: str, number: int = 0, **fields: object) -> plan.Module:
    """The region text with a plan: candidate `number`, with some fields changed; one without tensor cores where `micro`
    is among them."""
    from dataclasses import replace

    module = region.parse(text)
    kept = [
        c
        for c in to_plan.candidates(module, module.program.regions[0])
        if c.rejected in ("", to_plan.CROWDED) and ("micro" not in fields or c.plan.micro)
    ]
    return plan.Module(module, (replace(kept[min(number, len(kept) - 1)].plan, **fields),))


def lowered(module: plan.Module) -> tuple[gpu.Module, manifest.Module]:
    """The kernel and the CUDA of a planned region, both checked and read back from their texts."""
    kernels = to_gpu.lower(module)
    assert gpu.parse(gpu.show(kernels)) == kernels
    assert [(d.code, dict(d.facts)) for d in check_gpu(kernels) if d.is_error] == []
    code = to_cu.lower(kernels)
    assert manifest.parse(manifest.show(code)) == code
    assert [d for d in manifest.check(code) if d.is_error] == []
    return kernels, code


def simulated(code: manifest.Module, arrays: Mapping[str, np.ndarray], seed: int = 0) -> dict[str, np.ndarray]:
    """The outputs of the CUDA text on the CPU."""
    device = SimDevice(seed, limit=60)
    try:
        sizes = bind_symbols(code.region.model, dict(arrays))
        program = Program(device, manifest.show(code), code, sizes)
        program.upload(arrays)
        program.run()
        return program.outputs()
    finally:
        device.release()


def played(code: manifest.Module, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What NumPy playback of the carried region says."""
    return play(code.region, arrays)


def assert_as_played(
    code: manifest.Module,
    arrays: Mapping[str, np.ndarray],
    seed: int = 0,
    *,
    rtol: float,
    atol: float = 0,
    of: object = "",
) -> None:
    """The simulation gives what playback gives, within what other roundings change; `of` says what is tried."""
    given, wanted = simulated(code, arrays, seed), played(code, arrays)
    for name, array in wanted.items():
        found = given[name].astype(np.float64)
        np.testing.assert_allclose(found, array.astype(np.float64), rtol=rtol, atol=atol, err_msg=f"{name} of {of}")


def complaints_of(text: str, target: str, compiler: Compiler | None = None) -> list[str]:
    """What a compiler says against a CUDA text: a warning, a stack that no plan promises, spills. Without one it is
    NVRTC, or nvcc where that is not installed: NVRTC has no headers to read and no processes to start, which is most of
    nvcc's time on one kernel."""
    cubin, promised = (
        cubin_of(text, target, compiler or find_nvrtc() or find_compiler()),
        stack_of(manifest.parse(text).region.program.regions),
    )
    warnings = [line for line in cubin.log.splitlines() if "warning" in re.sub(r"-W\S*", "", line)]
    uses = usage_of(cubin).items()
    return [
        *warnings,
        *(
            f"{name} has a stack of {u.stack} bytes, spills {u.spill_stores} and {u.spill_loads}"
            for name, u in uses
            if u.stack > promised or u.spill_stores or u.spill_loads
        ),
    ]


TARGETS = tuple(a.target for a in ARCHS.values())


def meant_for(target: str, module: plan.Module) -> plan.Module:
    """The module with its plans for the architecture of a target."""
    arch = next(a.name for a in ARCHS.values() if a.target == target)
    return replace(module, plans=tuple(replace(one, arch=arch) for one in module.plans))
