"""Kernels as text, one statement on each line, a block two blanks further in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...kit.text import show_list
from ..body import show_body
from ..expr import ONE, show_guard
from ..model import show_name
from ..moved import show_placed
from . import nodes
from .nodes import Axes, Kernel, Launch, Lets, Place, Statement


def show_kernel(kernel: Kernel) -> str:
    """One kernel's section, ending in a line break."""
    cluster = f" cluster {show_list(kernel.cluster)}" if kernel.cluster else ""
    head = (
        f"kernel {_named(kernel)} : {kernel.arch} grid {show_list(kernel.grid)} block "
        f"{show_list(kernel.block)}{cluster}{_opt('regs', kernel.regs)}"
    )
    return "\n".join([head, *_lines(kernel.body, "  ")]) + "\n"


def show_launch(launch: Launch) -> str:
    """The line of one more launch of a kernel, with its line break."""
    places = dict(launch.moved)
    passed = ", ".join(
        f"{show_name(tensor)} = {show_placed(own, places.get(tensor, ()))}" for tensor, own in launch.passed
    )
    return f"launch {_named(launch)} as {show_name(launch.kernel)} with {passed}\n"


def _named(launch: Kernel | Launch) -> str:
    """The name of a launch, its regions where they are not of that name, and the launch that it serves."""
    regions = "" if launch.regions == (launch.name,) else f" of {', '.join(map(show_name, launch.regions))}"
    serves = f" for {show_name(launch.serves)}" if launch.serves else ""
    return f"{show_name(launch.name)}{regions}{serves}{' once' if launch.is_once else ''}"


def _lines(body: Iterable[Statement], indent: str) -> Iterable[str]:
    for statement in body:
        yield indent + show_statement(statement)
        yield from _lines(getattr(statement, "body", ()), indent + "  ")
        if isinstance(statement, nodes.If) and statement.otherwise:
            yield indent + "else"
            yield from _lines(statement.otherwise, indent + "  ")


def show_statement(statement: Statement) -> str:
    """A statement's line; of a block, its head."""
    return _SHOW[type(statement)](statement)


def _opt(word: str, value: Any, default: Any = 0) -> str:
    return "" if value == default else f" {word} {value}"


def _tokens(names: tuple[str, ...]) -> str:
    return ", ".join(f"%{show_name(n)}" for n in names)


def _for(names: tuple[str, ...]) -> str:
    return f" for {_tokens(names)}" if names else ""


def _moved(to: Place, over: Axes, value: Any, vector: int, lets: Lets = ()) -> str:
    named = f" with {', '.join(f'{n} = {e}' for n, e in lets)}" if lets else ""
    axes = f" over {', '.join(f'{n}: {size}' for n, size in over)}" if over else ""
    return f"{to}{axes}{named} = {show_body(value)}{_opt('vector', vector, 1)}"


def _held(name: str) -> str:
    return f" with {show_name(name)}" if name else ""


def _trans(is_transposed: bool) -> str:
    return " trans" if is_transposed else ""


def _show_reg(s: nodes.Reg) -> str:
    init = "" if s.init is None else f" = {show_body(s.init, s.type.dtype)}"
    return f"reg {show_name(s.name)} : {s.type}{_opt('ring', s.ring, 1)}{s.kind and ' ' + s.kind}{init}"


def _show_for(s: nodes.For) -> str:
    unroll = "" if s.unroll == 1 else f" unroll {s.unroll}" if s.unroll else " unroll"
    of = "" if s.source is None else f" of {s.source}"
    drawn = f" drawn{of} via {show_name(s.via)} full {s.full} empty {s.empty}" if s.via else ""
    return f"for {s.name} in {s.low}..{s.high}{_opt('step', str(s.step), '1')}{unroll}{drawn}"


def _show_role(s: nodes.Role) -> str:
    return f"role {s.name} {s.unit} {s.first}..{s.last}{_opt('regs', s.regs)}"


def _show_arrive(s: nodes.Arrive) -> str:
    cluster = f" cluster {show_list(s.cluster)}" if s.cluster else ""
    return f"arrive {s.barrier}{f' expect {s.expect} B' if s.expect else ''}{cluster}"


def _show_tma_load(s: nodes.TmaLoad) -> str:
    multicast = f" multicast {show_list(s.multicast)}" if s.multicast else ""
    return f"%{show_name(s.token)} = tma_load {s.to} <- {s.source} on {s.on}{multicast}{' streamed' * s.is_streamed}"


def _show_wgmma(s: nodes.Wgmma) -> str:
    zero = "" if s.zero is None else f" zero {show_guard(s.zero)}".rstrip()
    product = f"{s.a}{_trans(s.a_transposed)} * {s.b}{_trans(s.b_transposed)}"
    return f"%{show_name(s.token)} = wgmma {s.acc} += {product} shape {s.shape}{_opt('steps', s.steps, 1)}{zero}"


_SHOW: dict[type, Any] = {
    nodes.Assume: lambda s: f"assume {show_guard(s.guard)}",
    nodes.Shared: lambda s: (
        f"shared {show_name(s.name)} : "
        f"{s.type}{_opt('ring', s.ring, 1)}{_opt('swizzle', s.swizzle)}{_opt('cluster', s.cluster)}{s.kind and ' ' + s.kind}"  # noqa: E501
    ),
    nodes.Reg: _show_reg,
    nodes.Mbarrier: lambda s: f"mbarrier {s.name}{_opt('ring', s.ring, 1)} count {s.count}",
    nodes.TensorMap: lambda s: (
        f"tensor_map {s.name} = {show_name(s.tensor)}{s.dims and ' as ' + show_list(s.dims) or ''}"
        f"{s.windows and f' as {s.windows}' or ''} box {show_list(s.box)}{_opt('swizzle', s.swizzle)}"
        f"{_opt('round', s.rounding, '')}"
    ),
    nodes.Pick: lambda s: f"pick {show_name(s.name)} = {show_list(map(show_name, s.of))} at {s.at}",
    nodes.Cursor: lambda s: f"cursor {s.name} ring {s.ring}{_opt('at', s.at)}{_opt('phase', s.phase)}",
    nodes.Advance: lambda s: f"advance {s.cursor}" + (f" by {s.by}" if s.by != ONE else ""),
    nodes.Let: lambda s: f"let {s.name} = {s.value}",
    nodes.Least: lambda s: f"least {s.name} = {show_list(s.of)}",
    nodes.Most: lambda s: f"most {s.name} = {show_list(s.of)}",
    nodes.Choose: lambda s: f"choose {s.name} = {show_body(s.value)} below {s.extent}",
    nodes.Value: lambda s: f"%{show_name(s.name)} = {show_body(s.value)}",
    nodes.For: _show_for,
    nodes.If: lambda s: f"if {show_guard(s.guard)}",
    nodes.Role: _show_role,
    nodes.Order: lambda s: (
        f"order {show_list(s.names)} = {s.tile} in {show_list(s.extents)}{_opt('group', s.group)}"
        + " turning" * s.is_turning
    ),
    nodes.Each: lambda s: (
        f"each {', '.join(s.names)} of {Place(s.of, s.at)}"
        + (f" size {show_list(s.size)}" if s.size else "")
        + " approx" * s.is_approx
    ),
    nodes.Assign: lambda s: _moved(s.to, s.over, s.value, s.vector),
    nodes.Store: lambda s: f"store {_moved(s.to, s.over, s.value, s.vector)}{s.by and ' by ' + s.by}",
    nodes.Atomic: lambda s: f"atomic {s.op} {_moved(s.to, (), s.value, 1)}",
    nodes.Copy: lambda s: f"copy {_moved(s.to, s.over, s.value, s.vector, s.lets)}",
    nodes.CpAsync: lambda s: f"%{show_name(s.token)} = cp_async {_moved(s.to, s.over, s.value, s.vector, s.lets)}",
    nodes.Commit: lambda s: f"commit {_tokens(s.tokens)}",
    nodes.WaitGroup: lambda s: f"wait_group {s.engine} pending {s.pending}{_for(s.tokens)}",
    nodes.Wait: lambda s: f"wait {s.barrier} phase {s.phase}{_for(s.tokens)}",
    nodes.Arrive: _show_arrive,
    nodes.Drain: lambda s: f"drain {s.barrier} from {s.cursor}",
    nodes.TmaLoad: _show_tma_load,
    nodes.Send: lambda s: (
        f"%{show_name(s.token)} = send {s.to} <- {s.source} size {show_list(s.size)} to {s.cta} on {s.on}"
    ),
    nodes.TmaStore: lambda s: f"%{show_name(s.token)} = tma_store {s.to} <- {s.source}",
    nodes.StoreRows: lambda s: (
        f"store_rows {s.to}{s.dims and ' as ' + show_list(s.dims) or ''} box {show_list(s.box)} <- {s.source}"
    ),
    nodes.Fence: lambda s: f"fence {s.what}",
    nodes.Barrier: lambda s: f"barrier {s.scope}{_opt('threads', s.threads)}{s.half and ' ' + s.half}",
    nodes.WaitPrevious: lambda s: "wait_previous",
    nodes.LaunchNext: lambda s: "launch_next",
    nodes.Ldmatrix: lambda s: (
        f"ldmatrix {s.to} <- {s.source}{_trans(s.is_transposed)}" + (f" low {s.low}" if s.low else "")
    ),
    nodes.Split: lambda s: f"split {s.to} <- {s.source}",
    nodes.Resum: lambda s: f"resum {_moved(s.to, s.over, s.value, 1)}",
    nodes.Mma: lambda s: f"mma {s.acc} += {s.a} * {s.b} shape {s.shape}" + (f" math {s.math}" if s.math else ""),
    nodes.Wgmma: _show_wgmma,
    nodes.RowReduce: lambda s: f"row_reduce {s.op} {s.source} into {s.to}",
    nodes.WarpReduce: lambda s: (
        f"warp_reduce {s.op} {'exclusive ' * s.is_exclusive}{show_name(s.name)} width {s.width}"
    ),
    nodes.BlockReduce: lambda s: f"block_reduce {s.op} {show_name(s.name)} via {s.via}{' fresh' * s.is_fresh}",
    nodes.BlockScan: lambda s: (
        f"block_scan {s.op} {'exclusive ' if s.is_exclusive else ''}{show_name(s.name)} after "
        f"{show_name(s.carry)}{s.via and ' via ' + s.via}"
    ),
    nodes.Ticket: lambda s: f"ticket {s.name} of {s.source} below {s.extent} via {show_name(s.via)}",
    nodes.Publish: lambda s: f"publish {show_name(s.name)} to {s.to}{_held(s.held)}",
    nodes.LookBack: lambda s: (
        f"look_back {s.op} {show_name(s.name)} from {s.source} via {show_name(s.via)}{_held(s.held)}"
    ),
}
