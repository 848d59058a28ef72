"""The device functions that are PTX: conversions, asynchronous copies, barriers of all kinds, and the matrix units of sm80 and sm90.

A place in shared memory is its 32-bit address there, which `shared_address` gives; one in a CTA of the same cluster is what
`cluster_address` makes of it. Coordinates of a box and `tensor_map` sizes count elements, the fastest axis first.

    mbar_*        barriers that count arrivals and bytes; a phase has ended when both are complete, and `parity` names the phase
    tma_*         boxes of a tensor to shared memory and back, by the copy engine; a store's groups are waited for by its thread
    cp_async_*    16, 8 or 4 bytes a thread; `bytes` of them are read, the rest is zero
    ldmatrix_*    8x8 tiles of 16-bit elements between shared memory and a warp's registers, also stmatrix_*
    mma_*         the product of a warp, done when it returns
    wgmma_*       the product of a warpgroup: after `wgmma_fence`, until `wgmma_wait`. Its name says its form (`matrix_product`)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

NARROW = {"fp16": "f16", "bf16": "bf16"}
WIDTHS = range(8, 257, 8)
MATRIX_PRODUCT = re.compile(r"wgmma_m64n(\d+)k16_(fp16|bf16)(_ta|_ra)?(_tb)?")
INT, LONG = "unsigned int", "unsigned long long"


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """One function with its overloads, or one type. `name` is the word by which code uses it."""

    name: str
    text: str

    @property
    def declaration(self) -> str:
        """What a twin defines: `__device__ float float_of_fp16(fp16 x);`. A template must be declared as it is defined."""
        head = self.text[: self.text.index("{")].strip()
        return (head if head.startswith("template") else head.replace(" __forceinline__", "")) + ";"


def function(signature: str, body: str, template: str = "") -> Intrinsic:
    """A function on one line; `template` is the parameter of a template, such as `class T`."""
    head = f"template <{template}> " if template else ""
    return Intrinsic(_name_in(signature), f"{head}__device__ __forceinline__ {signature} {{ {body} }}".replace("{ \n", "{\n").replace("\n }", "\n}"))


def _value(signature: str, kind: str, ptx: str, *ins: str) -> Intrinsic:
    """A function whose result depends on its arguments alone."""
    result, field = signature[: signature.index(_name_in(signature))].strip(), ".bits" if kind == "h" else ""
    return function(signature, f'{result} y; asm("{ptx}" : "={kind}"(y{field}) : {", ".join(ins)}); return y;')


def _effect(signature: str, ptx: str, *ins: str, outs: str = "", template: str = "") -> Intrinsic:
    """A function that does something; the compiler moves no access to memory across it. PTX of several instructions: one a line."""
    head = f"template <{template}> " if template else ""
    lines = [f'"{line}"' for line in ptx.split("\n")]
    lines = [*(f'{line[:-1]}\\n"' for line in lines[:-1]), lines[-1]]
    operands = f': {outs} : {", ".join(ins)} : "memory"'.replace("  ", " ")
    whole = "\n    ".join(lines)
    between = " " if len(lines) == 1 and len(whole) + len(operands) < 110 else "\n    "
    return Intrinsic(_name_in(signature), f"{head}__device__ __forceinline__ void {signature} {{\n  asm volatile({whole}{between}{operands});\n}}")


def _name_in(signature: str) -> str:
    return re.search(r"(\w+)\(", signature)[1]


def _conversions() -> tuple[Intrinsic, ...]:
    return (
        _value("float float_of_fp16(fp16 x)", "f", "cvt.f32.f16 %0, %1;", '"h"(x.bits)'),
        _value("fp16 fp16_of_float(float x)", "h", "cvt.rn.f16.f32 %0, %1;", '"f"(x)'),
        _value("bf16 bf16_of_float(float x)", "h", "cvt.rn.bf16.f32 %0, %1;", '"f"(x)'),
        _value(f"{INT} fp16x2_of_floats(float low, float high)", "r", "cvt.rn.f16x2.f32 %0, %1, %2;", '"f"(high)', '"f"(low)'),
        _value(f"{INT} bf16x2_of_floats(float low, float high)", "r", "cvt.rn.bf16x2.f32 %0, %1, %2;", '"f"(high)', '"f"(low)'),
        _value("float exp2_approx(float x)", "f", "ex2.approx.ftz.f32 %0, %1;", '"f"(x)'),
    )


def _mbarriers() -> tuple[Intrinsic, ...]:
    barrier = '"r"(barrier)'
    ask = "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;"  # it may give up before the phase has ended
    wait = f"{{\n .reg .pred done;\n again:\n {ask}\n @done bra ended;\n bra again;\n ended:\n}}"
    remote = "{\n .reg .b32 there;\n mapa.shared::cluster.u32 there, %0, %1;\n mbarrier.arrive.shared::cluster.b64 _, [there];\n}"
    return (
        _effect(f"mbar_init({INT} barrier, {INT} count)", "mbarrier.init.shared::cta.b64 [%0], %1;", barrier, '"r"(count)'),
        _effect("fence_mbarrier_init()", "fence.mbarrier_init.release.cluster;"),
        _effect(f"mbar_arrive({INT} barrier)", "mbarrier.arrive.shared::cta.b64 _, [%0];", barrier),
        _effect(f"mbar_expect({INT} barrier, {INT} bytes)", "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;", barrier, '"r"(bytes)'),
        _effect(f"mbar_arrive_cluster({INT} barrier, {INT} cta)", remote, barrier, '"r"(cta)'),
        _effect(f"mbar_wait({INT} barrier, {INT} parity)", wait, barrier, '"r"(parity)'),
    )


def _tma(rank: int) -> tuple[Intrinsic, ...]:
    names = [f"x{n}" for n in range(rank)]
    places = ", ".join(f"int {n}" for n in names)
    axes = [f'"r"({n})' for n in names]
    load = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    store = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group"

    def at(first: int) -> str:
        return "{" + ", ".join(f"%{first + n}" for n in range(rank)) + "}"

    to, on = f"{INT} to, const tensor_map *map, {INT} barrier, {places}", ('"r"(to)', '"l"(map)', '"r"(barrier)')
    to_many = f"{load}.multicast::cluster [%0], [%1, {at(4)}], [%2], %3;"
    return (
        _effect(f"tma_load_{rank}d({to})", f"{load} [%0], [%1, {at(3)}], [%2];", *on, *axes),
        _effect(f"tma_load_{rank}d_multicast({to}, unsigned short ctas)", to_many, *on, '"h"(ctas)', *axes),
        _effect(f"tma_store_{rank}d(const tensor_map *map, {INT} from, {places})", f"{store} [%0, {at(2)}], [%1];", '"l"(map)', '"r"(from)', *axes),
    )


def _copies() -> tuple[Intrinsic, ...]:
    found = [
        *(item for rank in range(1, 6) for item in _tma(rank)),
        _effect("tma_prefetch(const tensor_map *map)", "prefetch.tensormap [%0];", '"l"(map)'),
        _effect("tma_store_commit()", "cp.async.bulk.commit_group;"),
        _effect("tma_store_wait()", "cp.async.bulk.wait_group %0;", '"n"(PENDING)', template="int PENDING"),
        _effect("tma_store_wait_read()", "cp.async.bulk.wait_group.read %0;", '"n"(PENDING)', template="int PENDING"),
    ]
    for size in (16, 8, 4):
        cache = "cg" if size == 16 else "ca"
        ptx = f"cp.async.{cache}.shared.global [%0], [%1], {size}, %2;"
        found.append(_effect(f"cp_async_{size}({INT} to, const void *from, {INT} bytes)", ptx, '"r"(to)', '"l"(from)', '"r"(bytes)'))
    found.append(_effect("cp_async_commit()", "cp.async.commit_group;"))
    found.append(_effect("cp_async_wait()", "cp.async.wait_group %0;", '"n"(PENDING)', template="int PENDING"))
    return tuple(found)


def _tiles() -> tuple[Intrinsic, ...]:
    found = []
    for count in (1, 2, 4):
        words = "abcd"[:count]
        held = ", ".join(f"%{n}" for n in range(count))
        kept = ", ".join(f"%{n + 1}" for n in range(count))
        for trans in ("", "_trans"):
            form = f"sync.aligned.m8n8.x{count}{trans.replace('_', '.')}.shared.b16"
            outs = ", ".join(f'"=r"({w})' for w in words)
            loaded = ", ".join(f"{INT} &{w}" for w in words)
            stored = ", ".join(f"{INT} {w}" for w in words)
            ins = ('"r"(to)', *(f'"r"({w})' for w in words))
            found.append(_effect(f"ldmatrix_x{count}{trans}({loaded}, {INT} from)", f"ldmatrix.{form} {{{held}}}, [%{count}];", '"r"(from)', outs=outs))
            found.append(_effect(f"stmatrix_x{count}{trans}({INT} to, {stored})", f"stmatrix.{form} [%0], {{{kept}}};", *ins))
    return tuple(found)


def _products() -> tuple[Intrinsic, ...]:
    found = []
    for dtype, kind in NARROW.items():
        signature = f"void mma_m16n8k16_{dtype}(float (&d)[4], const {INT} (&a)[4], {INT} b0, {INT} b1)"
        ptx = f"mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 {{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
        outs, ins = (", ".join(f'"{how}"({name}[{n}])' for n in range(4)) for how, name in (("+f", "d"), ("r", "a")))
        found.append(function(signature, f'\n  asm("{ptx}"\n    : {outs} : {ins}, "r"(b0), "r"(b1));\n'))
    return (
        *found,
        _effect("wgmma_fence()", "wgmma.fence.sync.aligned;"),
        _effect("wgmma_commit()", "wgmma.commit_group.sync.aligned;"),
        _effect("wgmma_wait()", "wgmma.wait_group.sync.aligned %0;", '"n"(PENDING)', template="int PENDING"),
    )


def _threads() -> tuple[Intrinsic, ...]:
    elect = r"{\n .reg .pred one;\n elect.sync _|one, 0xffffffff;\n selp.u32 %0, 1, 0, one;\n}"
    return (
        _effect(f"barrier_sync({INT} number, {INT} threads)", "bar.sync %0, %1;", '"r"(number)', '"r"(threads)'),
        _effect(f"barrier_arrive({INT} number, {INT} threads)", "bar.arrive %0, %1;", '"r"(number)', '"r"(threads)'),
        _effect("cluster_arrive()", "barrier.cluster.arrive.release.aligned;"),
        _effect("cluster_wait()", "barrier.cluster.wait.acquire.aligned;"),
        function(f"{INT} cluster_rank()", f'{INT} y; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(y)); return y;'),
        _value(f"{INT} cluster_address({INT} address, {INT} cta)", "r", "mapa.shared::cluster.u32 %0, %1, %2;", '"r"(address)', '"r"(cta)'),
        _effect("setmaxnreg_dec()", "setmaxnreg.dec.sync.aligned.u32 %0;", '"n"(REGISTERS)', template="int REGISTERS"),
        _effect("setmaxnreg_inc()", "setmaxnreg.inc.sync.aligned.u32 %0;", '"n"(REGISTERS)', template="int REGISTERS"),
        _effect("fence_async_proxy()", "fence.proxy.async.shared::cta;"),
        function("bool elect_one()", f'{INT} y; asm volatile("{elect}" : "=r"(y)); return y != 0;'),
    )


def matrix_product(name: str) -> Intrinsic | None:
    """The wgmma of the name: `wgmma_m64n256k16_fp16_tb`, accumulating in fp32. Each operand is K-major (its k axis the fastest), or with
    `_ta`, `_tb` the other way round; A is in shared memory, or with `_ra` in registers, as the accumulator of a product lies in them.
    None when the name is none."""
    found = MATRIX_PRODUCT.fullmatch(name)
    if found is None or int(found[1]) not in WIDTHS:
        return None
    width, kind, count = int(found[1]), NARROW[found[2]], int(found[1]) // 2
    in_registers = found[3] == "_ra"
    inputs = 4 if in_registers else 1
    held = ", ".join(f"%{n}" for n in range(count))
    a = "{" + ", ".join(f"%{count + n}" for n in range(4)) + "}" if in_registers else f"%{count}"
    majors = (f"{int(found[3] == '_ta')}, " if not in_registers else "") + str(int(found[4] is not None))
    outs = ", ".join(f'"+f"(d[{n}])' for n in range(count))
    ins = ", ".join(f'"r"(a[{n}])' for n in range(4)) if in_registers else '"l"(a)'
    left = f"const {INT} (&a)[4]" if in_registers else f"{LONG} a"
    return Intrinsic(name, f"""\
__device__ __forceinline__ void {name}(float (&d)[{count}], {left}, {LONG} b, int accumulate) {{
  asm volatile("{{\\n .reg .pred keep;\\n setp.ne.b32 keep, %{count + inputs + 1}, 0;\\n"
    " wgmma.mma_async.sync.aligned.m64n{width}k16.f32.{kind}.{kind} {{{held}}}, {a}, %{count + inputs}, keep, 1, 1, {majors};\\n}}"
    : {outs} : {ins}, "l"(b), "r"(accumulate));
}}""")


TYPES = (
    Intrinsic("fp16", "struct fp16 { unsigned short bits; };"),
    Intrinsic("bf16", "struct bf16 { unsigned short bits; };"),
    Intrinsic("fp8e4m3", "struct fp8e4m3 { unsigned char bits; };"),
    Intrinsic("fp8e5m2", "struct fp8e5m2 { unsigned char bits; };"),
    Intrinsic("tensor_map", "struct alignas(64) tensor_map { unsigned long long words[16]; };"),
)
GUARDED = (*_conversions(), *_mbarriers(), *_copies(), *_tiles(), *_products(), *_threads())
