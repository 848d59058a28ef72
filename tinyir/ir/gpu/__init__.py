"""GPU dialect: what each thread does, in order. The plan text, then a `kernel` for each launch (spec section 11; seed
001 section 9), or a `launch` where the kernel is one that came before, with other tensors.

    kernel gemm : sm90 grid [ceil(N/128), ceil(M/128)] block [16, 16]
      shared a : fp32[16, 128]
      reg acc : fp32[8, 8] = 0
      let m0 = 128*cta.y
      for k in 0..K step 16
        copy a[c, r] over r: 128, c: 16 = (cast(A[m0 + r, c + k]) : fp32) where m0 + r < M and c + k < K else 0.0
        barrier cta
        ...
      if row < M and col < N
        store C2[row, col] = cast(%relu) : fp16

What the plan left open is decided here: every buffer with its shape, swizzle and ring, which thread touches what, every
guard, wait and barrier. `workspace r.A.padded : fp16[M, 64*floor((K + 63)/64)]` is memory that kernels hand to one
another; a kernel `for` another is a part of its work, launched when that is. tiny-cu only spells it. Nothing of the
texts before is gone.

Integers are Exprs over the symbols of the signature, `let`s, loop names and the place of the thread: `cta` and `thread`
with .x, .y, .z (CUDA's order), `thread.index` and `warp.index` (in the CTA), `lane`, `warpgroup.index` and
`warpgroup.thread` (from the role's first), `cluster.rank`. A token (`%load.a`) means bytes or sums on their way:
one statement makes it, a `wait` takes it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...kit.diag import Diag
from ...kit.records import dataclass
from ...kit.text import Grammar, body_of, header
from ...kit.work import span
from .. import plan as plan_text
from .. import region as region_text
from ..model import show_name
from ..region import Tensor, tensor_of
from .nodes import Kernel, Launch
from .printer import show_kernel, show_launch, show_statement
from .reader import launches_of

STAGE = "gpu"
VERSION = "1.2"  # 1.1: it holds plans, whose language is of that version; 1.2: a kernel has several launches
GRAMMAR = Grammar("gpu", "gpu_text")


@dataclass(frozen=True, slots=True)
class Module:
    """A gpu text: the plan module, the launches in their order, each a kernel or one more launch of a kernel that comes
    before it, and the buffers that they have beside the program's."""

    plans: plan_text.Module
    launches: tuple[Kernel | Launch, ...]
    buffers: tuple[Tensor, ...] = ()

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels, in the order of their first launches."""
        return tuple([one for one in self.launches if one.__class__ is Kernel])


def parse(text: str) -> Module:
    """The Module of a gpu text. Raises Refused (E00xx text, E01xx and E02xx names, E1002 expressions, E1601 blocks)."""
    body_of(text, STAGE, VERSION)
    _, program, *rest = GRAMMAR.parse(text).children
    plans = plan_text.Module(
        region_text.program_of(program, text), plan_text.plans_of([t for t in rest if t.data == "plan"], text)
    )
    buffers = tuple(tensor_of(t.children, text) for t in rest if t.data == "workspace")
    launches = launches_of([t for t in rest if t.data in ("kernel", "launch")], plans, buffers, text)
    return Module(plans, launches, buffers)


def show(module: Module) -> str:
    """The canonical text of a module."""
    buffers = "".join(f"\nworkspace {show_name(b.name)} : {b.type}\n" for b in module.buffers)
    return (
        header(STAGE, VERSION) + "\n" + plan_text.show_plans(module.plans) + buffers + "".join(_show_launches(module))
    )


def _show_launches(module: Module) -> Iterator[str]:
    """Kernels with an empty line before each, as before the first of several further launches."""
    before: Kernel | Launch | None = None
    for one in module.launches:
        yield "" if isinstance(one, Launch) and isinstance(before, Launch) else "\n"
        yield show_kernel(one) if isinstance(one, Kernel) else show_launch(one)
        before = one


def check(module: Module) -> list[Diag]:
    """Invariants of gpu text, one function each in `ir.gpu.verify`, `counts`, `misfits`, `operands`, `bounds`,
    `accesses`, `order`, `mbarriers`, `rings`, `sends`, `elected`, `launches`, `replay`, `replay_products`, `dry`,
    `unwritten` and `writes`:

    1. the plan text holds its own invariants                                                           (E13xx to E15xx)
    2. every region is computed by a kernel, and a kernel that is a part of another's work names it     (E1604, E1603)
    3. a kernel's regions, architecture, grid, block and cluster exist                                  (E1603)
    4. an integer, array, value or cursor is defined once, and before its use                           (E1605, E1606)
    5. words are known, what a statement works on is of the kind and the dtype that it needs, and boxes make up
        tiles that are laid out as they are                                                              (E1602)
    6. places have as many indices as axes, and a slot where there is a ring                            (E1607)
    7. arrays and tensors are read and written inside, operands of products inside their tiles, and rings at
        slots that they have, as guards prove                                                           (E1614, E1615)
       what moves at once is as wide as the hardware can, and begins on multiples of that; so do random
       numbers of whole blocks                                                                          (E1670 to E1672)
    8. shared memory, registers and roles fit the architecture and the block                            (E1608, E1602,
      E1603)
    9. every thread comes to every barrier, and every lane of a warp to a fold over lanes; the halves of
        a barrier come in turn                                                                          (E1609)
    10. a token is made once, committed if it must be, and waited for where it lands                    (E1612)
    11. shared memory is read after it is whole, and refilled after its readers are done; that of a
        cluster is written by its own CTA, and read between barriers of the cluster; what a CTA sends is
        whole, and has been read before its own leaves                                                  (E1613)
    12. a matrix is touched only when its wgmma is done, and what that reads is given back only then; a
        barrier expects what lands on it                                                                (E1617, E1613,
          E1618)
    13. an mbarrier is set up, and all know it, before it is used, those of a cluster's other CTAs too,
        and a role waits for it as often as it completes (`ir.gpu.mbarriers`)                           (E1616)
    14. CTAs wait only for those that run already, and for words that begin as 0 (`ir.gpu.in_turn`)      (E1680)
    15. atomics fold into what an earlier kernel has written, in an order that does not matter or that
        the plan leaves open (`ir.gpu.atomics`)                                                          (E1681)
    16. a kernel that may start early waits, by every thread, before it touches a tensor (`ir.gpu.early`) (E1682)
    17. each element of a result is written once over a launch, and none is left out; CTAs that walk over tiles
        take each of them once, however many there are (`ir.gpu.writes`, where nothing else is wrong)   (E1619)
    18. what is launched once more is launched for regions that are the same but for names, with tensors in
        the places of tensors like them, and so is what serves it (`ir.gpu.launches`)                    (E1683)
    19. numbers of rows are those of a product's rows, their parts are folded before they are read (`ir.gpu.rows`),
        and the operands of a product have its shape and meet (`ir.gpu.operands`)                        (E1602)
    20. every wait ends; a slot is filled before it is read, read before it is filled again, and written when
        nothing uses it; a CTA's stores are read when it leaves; products find their registers fenced, engines
        what threads wrote, and sums are read (`ir.gpu.dry`, where nothing else is wrong)      (E1621 to E1628)
    21. each result of a launch that may have elements is written by some statement of it, and so is each
        workspace that it reads (`ir.gpu.unwritten`)                                                     (E1629)
    22. one thread starts a copy of the copy engine, and tells an mbarrier of its bytes (`ir.gpu.elected`) (E1684)
    """
    from .dry import check_dry_runs
    from .unwritten import check_unwritten
    from .verify import check_kernels
    from .writes import check_writes

    with span("plans"):
        found = plan_text.check(module.plans)
    if any(d.is_error for d in region_text.check(module.plans.program)):
        return found  # kernels compute the regions, which must mean something first
    found = [*found, *check_kernels(module)]
    if found:
        return found
    with span("dry runs"):
        found = [*check_dry_runs(module), *check_unwritten(module)]
    with span("writes"):
        return [*found, *check_writes(module)]


__all__ = ["Kernel", "Launch", "Module", "check", "parse", "show", "show_kernel", "show_statement"]
