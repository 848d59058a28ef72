"""The resources of a kernel: shared memory, registers in arrays, and the warps and registers of its roles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...kit.diag import Diag
from ...kit.phrase import Phrase
from ...target.arch import ARCHS, Arch
from ..body import Read
from . import nodes
from .nodes import Kernel
from .walk import Visit, names_in, statements

UNIT = 8  # registers that a thread is given at once
MATRIX_SHARE = {
    "wgmma": 128,
    "wgmma_a": 128,
    "mma": 32,
    "mma_a": 32,
    "mma_b": 32,
    "rows": 32,
    "row_parts": 32,
    "mma_rows": 8,
    "mma_row_parts": 8,
}  # threads that hold one matrix together, or share its rows


def check_resources(kernel: Kernel, walked: list[Visit], module: Any) -> Iterator[Diag]:
    """E1608 more shared memory or registers than there are, E1603 warps of a role that the block lacks or that another
    role has, E1602 registers of a role that hardware does not set."""
    arch = ARCHS[kernel.arch]
    shared = sum(-(-s.bytes // 128) * 128 for s in statements(kernel.body) if isinstance(s, nodes.Shared))
    shared += sum(8 * s.ring for s in statements(kernel.body) if isinstance(s, nodes.Mbarrier))
    if shared > arch.smem_per_cta:
        yield Diag(
            "E1608",
            kernel.name,
            {"what": Phrase("bytes of shared memory"), "used": shared, "most": arch.smem_per_cta},
            kernel.span,
        )
    held = _registers_held(kernel.body)
    held = held if held <= arch.registers_per_thread else _registers_held(kernel.body, is_exact=True)
    if held > arch.registers_per_thread:
        yield Diag(
            "E1608",
            kernel.name,
            {"what": Phrase("registers a thread in arrays alone"), "used": held, "most": arch.registers_per_thread},
            kernel.span,
        )
    roles = [s for s in kernel.body if isinstance(s, nodes.Role)]
    total = _registers_of_roles(kernel, roles, arch)
    if kernel.regs and any(r.regs for r in roles):
        fault = Phrase("has roles that set their registers, and `regs` of its own, from which they would not start")
        yield Diag("E1603", kernel.name, {"fault": fault}, kernel.span)
    if total > arch.registers_per_sm:
        yield Diag(
            "E1608",
            kernel.name,
            {"what": Phrase("registers of all roles"), "used": total, "most": arch.registers_per_sm},
            roles[-1].span,
        )
    taken: dict[int, nodes.Role] = {}
    for role in roles:
        unit = 4 if role.unit == "warpgroups" else 1
        warps = range(unit * role.first, unit * role.last)
        if 32 * warps.stop > kernel.threads or not warps:
            yield Diag(
                "E1603",
                kernel.name,
                {
                    "fault": Phrase(
                        "gives role {role} warps that the block of {threads} threads does not have",
                        role=role.name,
                        threads=kernel.threads,
                    )
                },
                role.span,
            )
        if any(w in taken for w in warps):
            yield Diag(
                "E1603",
                kernel.name,
                {"fault": Phrase("gives a warp both role {role} and another", role=role.name)},
                role.span,
            )
        if role.regs and (role.unit != "warpgroups" or role.regs % 8 or not 24 <= role.regs <= 240):
            yield Diag(
                "E1602",
                kernel.name,
                {"name": f"regs {role.regs}", "fault": Phrase("is not 24 to 240 by eight, for whole warpgroups")},
                role.span,
            )
        taken.update(dict.fromkeys(warps, role))


def _registers_of_roles(kernel: Kernel, roles: list[nodes.Role], arch: Arch) -> int:
    """What the threads have while the roles run: those that a role does not set are as many as at the start, where all
    have the same."""
    if not any(r.regs for r in roles):
        return 0
    start = min(-(-arch.registers_per_thread // UNIT), arch.registers_per_sm // kernel.threads // UNIT) * UNIT
    own = {r.name: r.threads for r in roles if r.regs}
    return sum(r.threads * r.regs for r in roles) + start * (kernel.threads - sum(own.values()))


def _registers_held(body: Any, is_exact: bool = False) -> int:
    """32-bit registers a thread in declared arrays where most are held at once: from an array's declaration to the end
    of its block, or if `is_exact` to the last statement of the block that names it, as words what memory fills so."""
    last: dict[str, int] = {}
    in_words: frozenset[str] = frozenset()
    if is_exact:
        last = {name: at for at, s in enumerate(body) for name in names_in(s)}
        in_words = frozenset(s.to.name for s in statements(body) if _brings_words(s))
    ends: dict[int, int] = {}
    held = most = 0
    for at, s in enumerate(body):
        if isinstance(s, nodes.Reg):
            count = s.ring
            for e in s.type.shape:
                count *= e.evaluate({})
            share = MATRIX_SHARE.get(s.kind, 1)
            width = s.type.dtype.bytes if s.kind or s.name in in_words else max(4, s.type.dtype.bytes)
            taken = -(-count * width // (4 * share))
            end = last.get(s.name, len(body))
            held, ends[end] = held + taken, ends.get(end, 0) + taken
        inner = max(_registers_held(getattr(s, block, ()), is_exact) for block in ("body", "otherwise"))
        most = max(most, held + inner)
        held -= ends.get(at, 0)
    return most


def _brings_words(s: Any) -> bool:
    """Whether a statement fills registers with whole words of memory, which may stay words."""
    return isinstance(s, nodes.Assign) and isinstance(s.value, Read) and s.vector * s.value.dtype.bytes % 4 == 0
