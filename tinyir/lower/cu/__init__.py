"""gpu → cu: kernels as one self-contained CUDA file, with its manifest in the comment on top (spec section 12).

    copy b[c, r] over c: 16, r: 128 = (cast(B[c + k, n0 + r]) : fp32) where ... else 0.0
    →  for (int element = thread_index; element < 2048; element += 256) { ... b[c][r] = n0 + r < N && c + k < K ?
      float_of_fp16(B[...]) : 0.0f; }

Nothing is decided here: which thread does what, every guard and every barrier stand in the gpu text. No header is
included; device functions come from `target.intrinsics`, each only where it is used.
"""

from __future__ import annotations

from ...analysis.work import bytes_of, flops_of
from ...ir import gpu, manifest
from ...ir.expr import ZERO
from ...ir.gpu import nodes
from ...kit.diag import Refused
from ...target.intrinsics import intrinsics_of, show_intrinsics
from .kernel import Emitted, alignment_of, emit
from .library import LIBRARY
from .names import Names


def lower(module: gpu.Module) -> manifest.Module:
    """The .cu of a gpu module. Raises Refused (E1620) for statements that have no spelling yet, all of them."""
    entries, emitted, faults = Names(LIBRARY), [], []
    alignment = alignment_of(module.kernels)
    for kernel in module.kernels:
        try:
            emitted.append(emit(kernel, module.plans, entries.of("kernel", kernel.name), module.buffers, alignment))
        except Refused as fault:
            faults.extend(fault.diags)
    if faults:
        raise Refused(faults)
    maps, renamed = _maps_of(emitted)
    launches = tuple(
        _launch(module, kernel, code, names) for kernel, code, names in zip(module.kernels, emitted, renamed)
    )
    code = "\n".join(e.text for e in emitted)
    functions = show_intrinsics(intrinsics_of(code))
    source = "\n" + (functions + "\n\n" if functions else "") + code
    return manifest.Module(module.plans.program, module.buffers, maps, launches, source)


def _maps_of(emitted: list[Emitted]) -> tuple[tuple[manifest.TensorMap, ...], list[tuple[str, ...]]]:
    """All tensor maps, and each kernel's names of them: one of another kernel that is another map has a number behind
    its name."""
    maps: dict[str, manifest.TensorMap] = {}
    names = []
    for code in emitted:
        own = []
        for m in code.maps:
            name, number = m.name, 1
            told = (m.tensor, m.box, m.swizzle, m.dims, m.rounding, m.windows)
            while name in maps and maps[name] != manifest.TensorMap(name, *told):
                number += 1
                name = f"{m.name}.{number}"
            maps[name] = manifest.TensorMap(name, *told)
            own.append(name)
        names.append(tuple(own))
    return tuple(maps.values()), names


def _launch(module: gpu.Module, kernel: nodes.Kernel, code: Emitted, maps: tuple[str, ...]) -> manifest.Launch:
    regions = [module.plans.program.program.region(name) for name in kernel.regions]
    return manifest.Launch(
        kernel.name,
        code.entry,
        kernel.regions,
        kernel.arch,
        kernel.grid,
        kernel.block,
        code.tensors,
        code.symbols,
        ZERO if kernel.serves else sum((flops_of(r) for r in regions), ZERO),
        ZERO if kernel.serves else sum((bytes_of(r) for r in regions), ZERO),
        maps=maps,
        cluster=kernel.cluster,
        smem=code.dynamic_shared,
        assumes=tuple(s.guard for s in kernel.body if isinstance(s, nodes.Assume)),
        serves=kernel.serves,
        is_once=kernel.is_once,
        is_early=any(isinstance(s, nodes.WaitPrevious) for s in kernel.body),
    )


__all__ = ["lower"]
