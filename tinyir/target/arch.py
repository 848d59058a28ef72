"""What an SM of each target architecture can hold and do: the limits that a plan must keep (CUDA programming guide,
compute capabilities).

A card's own figures (how many SMs, clocks, bandwidth) are `analysis/devices/*.toml`.
"""

from __future__ import annotations

from ..kit.numbers import Number, is_column, least, most, pick
from ..kit.records import dataclass

SHARED_ALIGNMENT = 128  # bytes: where each array in shared memory begins


def aligned(size: int) -> int:
    """Bytes of an array in shared memory with what follows it up to the next one."""
    return -(-size // SHARED_ALIGNMENT) * SHARED_ALIGNMENT


@dataclass(frozen=True, slots=True)
class Arch:
    """One row. Memory in bytes. `smem_per_cta` is what a kernel may ask for; `smem_reserved` is taken from the SM for
    each CTA beside it. Registers are handed out to a warp in pieces of `register_piece`, from the quarter of the file
    that its scheduler has. `static_smem` is what a kernel may declare without asking the driver. `has_tma` covers
    TMA, mbarrier, wgmma, setmaxnreg, clusters and launches that start early."""

    name: str
    target: str
    has_tma: bool
    smem_per_sm: int
    smem_per_cta: int
    smem_reserved: int = 1024
    registers_per_sm: int = 65536
    registers_per_thread: int = 255
    register_piece: int = 256
    threads_per_cta: int = 1024
    threads_per_sm: int = 2048
    ctas_per_sm: int = 32
    warp: int = 32
    schedulers: int = 4
    static_smem: int = 48 * 1024
    ctas_per_cluster: int = 1
    fp32_lanes: int = 128

    def ctas_that_fit(self, smem: Number, regs: Number, threads: Number) -> Number:
        """How many CTAs of `smem` bytes and `threads` threads of `regs` registers an SM holds at once; 0 when not even
        one. Of columns a column."""
        fits = (smem <= self.smem_per_cta) & (regs <= self.registers_per_thread) & (threads <= self.threads_per_cta)
        if not is_column(fits) and not fits:
            return 0
        warps = -(-threads // self.warp)
        per_warp = -(-most(regs, 1) * self.warp // self.register_piece) * self.register_piece
        warps_with_registers = self.registers_per_sm // per_warp // self.schedulers * self.schedulers
        found = least(
            self.smem_per_sm // (smem + self.smem_reserved),
            warps_with_registers // warps,
            self.threads_per_sm // (warps * self.warp),
            self.ctas_per_sm,
        )
        return pick(fits, found, 0)


ARCHS: dict[str, Arch] = {
    a.name: a
    for a in (
        Arch("sm80", "sm_80", has_tma=False, smem_per_sm=164 * 1024, smem_per_cta=163 * 1024, fp32_lanes=64),
        Arch("sm90", "sm_90a", has_tma=True, smem_per_sm=228 * 1024, smem_per_cta=227 * 1024, ctas_per_cluster=16),
    )
}
