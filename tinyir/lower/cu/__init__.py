"""gpu → cu: kernels as one self-contained CUDA file, with its manifest in the comment on top (spec section 12).

    copy b[c, r] over c: 16, r: 128 = (cast(B[c + k, n0 + r]) : fp32) where ... else 0.0
    →  for (int element = thread_index; element < 2048; element += 256) { ... b[c][r] = n0 + r < N && c + k < K ?
      float_of_fp16(B[...]) : 0.0f; }

Nothing is decided here: which thread does what, every guard and every barrier are in the gpu text. No header is
included; device functions come from `target.intrinsics`, each only where it is used.
"""

from __future__ import annotations

from ...analysis.work import bytes_of, flops_of
from ...ir import gpu, manifest
from ...ir.expr import ZERO
from ...ir.gpu import nodes
from ...kit.diag import collecting, refuse_all
from ...kit.groups import lists_of
from ...kit.names import FreeNames
from ...kit.records import replace
from ...kit.work import span
from ...target.intrinsics import intrinsics_of, show_intrinsics
from .kernel import alignment_of, emit
from .names import LIBRARY, Names
from .sized import Emitted, show_kernels


def lower(module: gpu.Module) -> manifest.Module:
    """The .cu of a gpu module: a function for each kernel, and a launch for each that the module has. Raises Refused
    (E1620) for statements that have no spelling yet, all of them."""
    entries, faults = Names(LIBRARY), []
    emitted: dict[str, Emitted] = {}
    alignment = alignment_of(module.kernels)
    served = lists_of((nodes.kernel_named(one), one.name) for one in module.launches)
    for kernel in module.kernels:
        entry = entries.of("kernel", kernel.name)
        with collecting(faults):
            with span("kernel", kernel.name):
                emitted[kernel.name] = emit(
                    kernel, module.plans, entry, module.buffers, alignment, tuple(served[kernel.name])
                )
    refuse_all(faults)
    code, instead = show_kernels([*emitted.values()], entries)
    kernels = {kernel.name: kernel for kernel in module.kernels}
    maps, launches = _Maps(), []
    for one in module.launches:
        own = emitted[nodes.kernel_named(one)]
        entry = instead.get(own.entry, own.entry)
        launches.append(_launch(module, one, kernels[nodes.kernel_named(one)], replace(own, entry=entry), maps))
    functions = show_intrinsics(intrinsics_of(code))
    source = "\n" + (functions + "\n\n" if functions else "") + code
    return manifest.Module(module.plans.program, module.buffers, tuple(maps.made.values()), tuple(launches), source)


class _Maps:
    """The tensor maps of all launches. One that is another map than an earlier one of its name has a number behind
    it."""

    def __init__(self) -> None:
        self.made: dict[str, manifest.TensorMap] = {}
        self._named: dict[manifest.TensorMap, str] = {}
        self._free = FreeNames(numbered="{}.{}".format)

    def of(self, m: nodes.TensorMap, tensor: str) -> str:
        """The name of a kernel's map, of this tensor."""
        wanted = manifest.TensorMap(m.name, tensor, m.box, m.swizzle, m.dims, m.rounding, m.windows)
        if wanted not in self._named:
            name = self._free.name(m.name)
            self.made[name], self._named[wanted] = replace(wanted, name=name), name
        return self._named[wanted]


def _launch(
    module: gpu.Module, one: nodes.Kernel | nodes.Launch, kernel: nodes.Kernel, code: Emitted, maps: _Maps
) -> manifest.Launch:
    regions = [module.plans.program.program.region(name) for name in one.regions]
    passed = dict(one.passed) if isinstance(one, nodes.Launch) else {}
    moved = dict(one.moved) if isinstance(one, nodes.Launch) else {}
    return manifest.Launch(
        one.name,
        code.entry,
        one.regions,
        kernel.arch,
        kernel.grid,
        kernel.block,
        tuple(passed.get(name, name) for name in code.tensors),
        code.symbols,
        ZERO if one.serves else sum((flops_of(r) for r in regions), ZERO),
        ZERO if one.serves else sum((bytes_of(r) for r in regions), ZERO),
        maps=tuple(maps.of(m, passed.get(m.tensor, m.tensor)) for m in code.maps),
        cluster=kernel.cluster,
        smem=code.dynamic_shared,
        assumes=tuple(s.guard for s in kernel.body if isinstance(s, nodes.Assume)),
        serves=one.serves,
        is_once=one.is_once,
        moved=tuple((passed.get(name, name), moved[name]) for name in code.tensors if name in moved),
        is_early=any(isinstance(s, nodes.WaitPrevious) for s in kernel.body),
    )
