"""What is around a kernel's statements: the comment above it, its bounds and parameters, the place of the
thread."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from ...ir.body import Reduce, walk
from ...ir.expr import Expr
from ...ir.gpu.nodes import Kernel, Role
from ...ir.intervals import INT_MAX, LARGEST_SIZE, Interval, interval_of
from ...ir.model import Model, show_name
from ...ir.plan import Plan
from ...ir.region import Region, Tensor
from ...ir.traits import bodies_of
from .names import comment, words_of
from .value import memory_type

SPECIAL = {
    f"{word}.{axis}": f"{source}.{axis}"
    for word, source in (("thread", "threadIdx"), ("cta", "blockIdx"))
    for axis in "xyz"
}
COUNTED = ("thread.index", "lane", "warp.index", "warpgroup.thread", "cluster.rank")


def plan_of(kernel: Kernel, plans: tuple[Plan, ...]) -> Plan | None:
    """The plan that a kernel obeys; of alternatives the second makes `gemm.2`, and so on."""
    own = [p for p in plans if set(kernel.regions) <= set(p.regions)]
    named = [p for number, p in enumerate(own, 1) if (kernel.serves or kernel.name) == f"{p.name}.{number}"]
    return next(iter(named or own), None)


def comment_of(regions: tuple[Region, ...], plan: Plan | None, launches: tuple[str, ...]) -> Iterator[str]:
    """As what a kernel is launched where that is more than one, which regions the first launch computes, from which ops
    of the model, and by which plan."""
    if len(launches) > 1:
        yield comment(f"launches {', '.join(map(show_name, launches))}: in names of the first")
    for region in regions:
        origins = dict.fromkeys(i.origin for i in (*region.lets, *region.yields) if i.origin is not None)
        named = ", ".join(str(o).removeprefix("from ") for o in origins)
        yield comment(f"region {show_name(region.name)}" + (f": {named}" if named else ""))
    if plan is not None:
        shape = [f"tile {list(plan.tile)}"] + [
            f"{w} {list(getattr(plan, w))}" for w in ("micro", "threads") if getattr(plan, w)
        ]
        shape += [f"stages {plan.stages}"] if plan.stages > 1 else []
        shape += [f"cluster {list(plan.cluster.shape)}"] if plan.cluster else []
        yield comment(f"plan {plan.family} {plan.headline[0]}: {', '.join(shape)}")


def bounds_of(kernel: Kernel) -> str:
    """What holds the compiler: to `regs` registers a thread, else to what the block's threads leave to one, of all that
    an SM has where the warps of roles hand registers to one another. CUDA takes either attribute, never both."""
    cluster = f" __cluster_dims__({kernel.cluster[0]}, 1, 1)" if kernel.cluster else ""
    if kernel.regs:
        return f"__maxnreg__({kernel.regs}){cluster}"
    resident = ", 1" if any(isinstance(s, Role) for s in kernel.body) else ""
    return f"__launch_bounds__({kernel.threads}{resident}){cluster}"


def parameters_of(tensors: Mapping[str, Tensor], outputs: Collection[str]) -> Iterator[str]:
    """The parameter of each tensor, by its name in C. Those that share their memory, an alias and the tensor that it is
    one of, are not `__restrict__`."""
    shared = {tensor.attr("alias") for tensor in tensors.values()}
    for name, tensor in tensors.items():
        alone = "" if tensor.attr("alias") is not None or tensor.name in shared else "__restrict__ "
        yield f"{'' if tensor.name in outputs else 'const '}{memory_type(tensor.type.dtype)} *{alone}{name}"


def ranges_of(kernel: Kernel, model: Model) -> dict[str, Interval]:
    """The ranges of the symbols and of the thread's place."""
    ranges = {s: Interval(r.low, min(r.high, LARGEST_SIZE)) for s in model.symbols() for r in (model.range_of(s),)}
    for axis, size in zip("xyz", (*kernel.block, 1, 1)):
        ranges[f"thread.{axis}"] = Interval(0, size - 1)
    for axis, count in zip("xyz", (*kernel.grid, Expr.of(1), Expr.of(1))):
        most = interval_of(count, ranges).high
        ranges[f"cta.{axis}"] = Interval(0, (INT_MAX if most is None else min(most, INT_MAX)) - 1)
    ranges["thread.index"] = Interval(0, kernel.threads - 1)
    ranges["lane"] = Interval(0, 31)
    ranges["warpgroup.thread"] = Interval(0, 127)
    ranges["cluster.rank"] = Interval(0, (kernel.cluster[0] if kernel.cluster else 1) - 1)
    ranges["warp.index"] = Interval(0, (kernel.threads - 1) // 32)
    return ranges


def special_of(name: str, block: tuple[int, ...], cluster: tuple[int, ...] = ()) -> str:
    """The C of a thread's place."""
    if name in SPECIAL:
        return f"(int){SPECIAL[name]}"
    x, y, z = (*block, 1, 1)[:3]
    linear = (
        "(int)threadIdx.x"
        + (f" + {x} * (int)threadIdx.y" if y > 1 else "")
        + (f" + {x * y} * (int)threadIdx.z" if z > 1 else "")
    )
    closed = f"({linear})" if " " in linear else linear
    counted = {
        "thread.index": linear,
        "lane": "(int)(threadIdx.x % 32)" if len(block) > 1 and x % 32 == 0 else f"{closed} % 32",
        "warp.index": f"{closed} / 32",
        "warpgroup.thread": f"{closed} % 128",
    }
    return counted[name] if name in counted else f"(int)blockIdx.x % {cluster[0] if cluster else 1}"  # cluster.rank


def specials_of(used: Mapping[str, str], lines: Iterable[str], kernel: Kernel) -> list[str]:
    """The declarations of the thread's places that the lines use: the CTA's first."""
    words = words_of(lines)
    ordered = sorted(used.items(), key=lambda item: (item[0].startswith("thread"), item[0]))
    return [
        f"  const int {spelling} = {special_of(name, kernel.block, kernel.cluster)};"
        for name, spelling in ordered
        if spelling in words
    ]


def sizes_by_axis(regions: Iterable[Region]) -> dict[str, tuple[Expr, ...]]:
    """The sizes of each axis name; axes of folds may share one."""
    found: dict[str, tuple[Expr, ...]] = {}
    for region in regions:
        folds = [n for body in bodies_of(region) for n in walk(body) if isinstance(n, Reduce)]
        for axis in (*region.iters, *(a for fold in folds for a in fold.axes if a.size is not None)):
            found[axis.name] = tuple(dict.fromkeys((*found.get(axis.name, ()), axis.size)))
    return found
