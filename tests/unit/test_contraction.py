"""Contractions are found from the maps alone: einsum patterns, convolutions, attention; and what only looks like one is
not."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyir.ir import tiny
from tinyir.ir.expr import Expr
from tinyir.ir.poly import Block, Module
from tinyir.lower import index, poly

HEAD = "tinyir 1.0 tiny\n\nmodel m\n"


def lowered(signature: list[str], values: list[str], result: str) -> Module:
    """The poly module of a program given line by line."""
    text = (
        HEAD
        + "".join(f"  {line}\n" for line in signature)
        + "\n"
        + "".join(f"  {line}\n" for line in values)
        + f"\noutputs: y=%{result}\n"
    )
    module = tiny.parse(text)
    assert [d for d in tiny.check(module) if d.is_error] == []
    return poly.lower(index.lower(module))


def block(module: Module, name: str) -> Block:
    """One block, which must be there."""
    return module.block_of()[name]


def einsum(spec: str) -> Module:
    """`ab,bc->ac` as tiny text: each factor one VIEW onto the product's axes, which are the output's and then the
    summed ones."""
    (left, right), out = spec.split("->")[0].split(","), spec.split("->")[1]
    summed = [c for c in dict.fromkeys(left + right) if c not in out]
    axes = [*out, *summed]
    shape = ", ".join(c.upper() for c in axes)

    def view(name: str, letters: str) -> str:
        return (
            f"%{name}x = VIEW({name}) {{index_map=[{', '.join(f'i{axes.index(c)}' for c in letters)}]}} : fp16[{shape}]"
        )

    names = [f"in {n} : fp16[{', '.join(c.upper() for c in letters)}]" for n, letters in (("a", left), ("b", right))]
    sizes = ", ".join(c.upper() for c in out)
    return lowered(
        [*names, f"out y : fp32[{sizes}]"],
        [
            view("a", left),
            view("b", right),
            f"%p = MUL(%ax, %bx) : fp32[{shape}]",
            f"%s = REDUCE(%p) {{op=SUM, axes=[{', '.join(str(len(out) + n) for n in range(len(summed)))}], "
            f"dtype=fp32}} : fp32[{sizes}]",
        ],
        "s",
    )


EINSUMS = """
mk,kn->mn   km,kn->mn   mk,nk->mn   km,nk->mn   mk,kn->nm   bmk,bkn->bmn   bmk,kn->bmn   mk,bkn->bmn   bkm,bnk->bmn
bhmd,bhnd->bhmn   bhmn,bhnd->bhmd   bmhd,bnhd->bhmn   bhmn,bnhd->bmhd   k,k->   mk,k->m   k,kn->n   bk,bk->b   bmk,bk->bm
mkl,kln->mn   mkl,lkn->mn   mkl,kl->m   abck,kdef->abcdef   abk,kcd->abcd   abkl,klcd->abcd   kl,kl->   am,ak->mk   abm,abn->mn
bim,bin->mn   mk,nk->nm   ack,bck->abc   ack,bkc->abc   zmk,zkn->mzn   mkk,kn->mn   mk,kk->m   mm,mk->k   ijk,jk->i   tbkl,skl->tbs
pqk,rk->pqr   pqk,rqk->pqr   tbk,skb->tsb
""".split()  # noqa: E501


@pytest.mark.parametrize("spec", EINSUMS)
def test_einsum(spec: str) -> None:
    (left, right), out = spec.split("->")[0].split(","), spec.split("->")[1]
    names = {c: f"i{n}" for n, c in enumerate(out)}
    summed = [c for c in dict.fromkeys(left + right) if c not in out]
    assert summed
    found = block(einsum(spec), "s")
    assert (found.kind, found.pattern, found.fuses, found.windows) == ("contraction", "matmul", ("p",), ())
    assert found.batch == tuple(names[c] for c in out if c in left and c in right)
    assert found.left == tuple(names[c] for c in out if c in left and c not in right)
    assert found.right == tuple(names[c] for c in out if c in right and c not in left)
    assert found.sum == tuple(f"k{n}" for n in range(len(summed)))


def test_forty_einsums_are_tried() -> None:
    assert len(set(EINSUMS)) == 40


@settings(max_examples=60)
@given(
    st.sampled_from([e for e in EINSUMS if all(len(set(side)) == len(side) for side in e.split("->")[0].split(","))]),
    st.randoms(use_true_random=False),
)
def test_permuted_and_renamed_it_is_the_same_contraction(spec: str, random: Random) -> None:
    """The product's axes in any order, factors turned, in either order and made by other movements, every name another:
    the same letters have the same roles. No name is consulted, neither of an op of the model nor of a value."""
    (left, right), out = spec.split("->")[0].split(","), spec.split("->")[1]
    axes = random.sample(sorted(set(left + right)), len(set(left + right)))
    words = iter(random.sample("exp max conv softmax gather pad q.0 sum relu z scan tanh".split(), 12))
    sides = random.sample([left, right], 2)
    inputs, lines, factors = [], [], []
    for letters in sides:
        turned = "".join(random.sample(letters, len(letters)))
        source, moved, wide = next(words), next(words), next(words)
        inputs.append(f"in {source} : fp16[{', '.join(c.upper() for c in turned)}]")
        kept = [c for c in axes if c in letters]
        if random.random() < 0.5:
            lines.append(
                f"%{moved} = PERMUTE({source}) {{perm={[turned.index(c) for c in kept]}}} : "
                f"fp16[{', '.join(c.upper() for c in kept)}]"
            )
            lines.append(
                f"%{wide} = EXPAND(%{moved}) {{broadcast_dimensions={[axes.index(c) for c in kept]}}} : "
                f"fp16[{', '.join(c.upper() for c in axes)}]"
            )
        else:
            lines.append(
                f"%{wide} = VIEW({source}) {{index_map=[{', '.join(f'i{axes.index(c)}' for c in turned)}]}} : "
                f"fp16[{', '.join(c.upper() for c in axes)}]"
            )
        factors.append(wide)
    product, total, result = next(words), next(words), [c for c in axes if c in out]
    lines.append(f"%{product} = MUL(%{factors[0]}, %{factors[1]}) : fp32[{', '.join(c.upper() for c in axes)}]")
    summed = [n for n, c in enumerate(axes) if c not in out]
    lines.append(
        f"%{total} = REDUCE(%{product}) {{op=SUM, axes={random.sample(summed, len(summed))}, dtype=fp32}} : "
        f"fp32[{', '.join(c.upper() for c in result)}]"
    )
    found = block(lowered([*inputs, f"out y : fp32[{', '.join(c.upper() for c in result)}]"], lines, total), total)
    assert (found.kind, found.pattern, found.fuses) == ("contraction", "matmul", (product,))
    role = {f"i{n}": c for n, c in enumerate(result)}
    assert {role[a] for a in found.batch} == {c for c in out if c in left and c in right}
    assert {role[a] for a in found.left} == {c for c in out if c in sides[0] and c not in sides[1]}
    assert {role[a] for a in found.right} == {c for c in out if c in sides[1] and c not in sides[0]}
    assert len(found.sum) == len(summed)


def conv(
    size: str,
    kernel: str,
    stride: int = 1,
    dilation: int = 1,
    pad: tuple[int, int] = (0, 0),
    dims: int = 1,
    groups: str = "",
    last: bool = False,
) -> Module:
    """A convolution of `dims` dims with W [G, Co, Ci, k...] and X [N, G, Ci, L...], or channels last."""
    axes = ["N", *([groups] if groups else []), "Co", *["L"] * dims, "Ci", *[kernel] * dims]
    at = {name: axes.index(name) for name in ("N", "Co", "Ci")}
    space = [at["Co"] + 1 + d for d in range(dims)]
    taps = [at["Ci"] + 1 + d for d in range(dims)]
    width = f"{stride}*L + {dilation}*({kernel}) - {dilation} - {stride} + 1".replace("1*L", "L")
    padded = str(_read(width))
    width = str(_read(f"{width} - {pad[0]} - {pad[1]}"))
    group = [f"i{axes.index(groups)}"] if groups else []
    window = [f"{stride}*i{s} + {dilation}*i{k}" for s, k in zip(space, taps)]
    shape = ", ".join([*axes[: len(axes)]])
    channel_dims = ["N", *([groups] if groups else []), "Ci"]
    x_map = [f"i{at['N']}", *group, f"i{at['Ci']}", *window]
    if last:
        channel_dims, x_map = ["N"], [f"i{at['N']}", *window, *group, f"i{at['Ci']}"]
    tail = [*([groups] if groups else []), "Ci"] if last else []
    x_shape = [*channel_dims, *[width] * dims, *tail]
    p_shape = [*channel_dims, *[padded] * dims, *tail]
    pads = [[0, 0]] * len(channel_dims) + [list(pad)] * dims + [[0, 0]] * len(tail)
    w_shape = [*([groups] if groups else []), "Co", "Ci", *[kernel] * dims]
    w_map = [*group, f"i{at['Co']}", f"i{at['Ci']}", *(f"i{k}" for k in taps)]
    out = ", ".join(axes[: at["Ci"]])
    return lowered(
        [f"in x : fp16[{', '.join(x_shape)}]", f"in w : fp16[{', '.join(w_shape)}]", f"out y : fp32[{out}]"],
        [
            f"%xp = PAD(x) {{pad={pads}}} : fp16[{', '.join(p_shape)}]",
            f"%xv = VIEW(%xp) {{index_map=[{', '.join(x_map)}]}} : fp16[{shape}]",
            f"%wv = VIEW(w) {{index_map=[{', '.join(w_map)}]}} : fp16[{shape}]",
            f"%p = MUL(%wv, %xv) : fp32[{shape}]",
            f"%s = REDUCE(%p) {{op=SUM, axes={list(range(at['Ci'], len(axes)))}, dtype=fp32}} : fp32[{out}]",
        ],
        "s",
    )


def _read(text: str) -> Expr:
    from tinyir.ir.read import read_expr

    return read_expr(text)


CONVS = [
    {"dims": dims, "stride": stride, "dilation": dilation, "pad": pad, "groups": groups, "last": last}
    for dims, stride, dilation, pad, groups, last in [
        (1, 1, 1, (0, 0), "", False),
        (1, 2, 1, (0, 0), "", False),
        (1, 1, 2, (0, 0), "", False),
        (1, 3, 2, (0, 0), "", False),
        (1, 1, 1, (1, 1), "", False),
        (1, 2, 1, (1, 1), "", False),
        (1, 2, 1, (0, 1), "", False),
        (1, 2, 3, (2, 1), "", False),
        (1, 1, 1, (0, 0), "G", False),
        (1, 2, 1, (1, 1), "G", False),
        (1, 1, 1, (0, 0), "", True),
        (1, 2, 2, (1, 1), "G", True),
        (2, 1, 1, (0, 0), "", False),
        (2, 2, 1, (1, 1), "", False),
        (2, 1, 2, (2, 2), "", False),
        (2, 2, 2, (0, 1), "", False),
        (2, 1, 1, (1, 1), "G", False),
        (2, 2, 1, (1, 1), "G", False),
        (2, 2, 1, (1, 1), "", True),
        (2, 1, 1, (1, 1), "G", True),
        (3, 1, 1, (0, 0), "", False),
        (3, 2, 1, (1, 1), "", False),
        (3, 1, 2, (1, 1), "", False),
        (3, 2, 1, (1, 1), "", True),
        (3, 1, 1, (1, 1), "G", False),
        (3, 4, 1, (0, 0), "", False),
        (2, 4, 1, (0, 0), "", False),
        (2, 3, 3, (3, 3), "", False),
        (1, 5, 1, (2, 2), "", True),
        (1, 1, 5, (4, 4), "G", False),
    ]
]


@pytest.mark.parametrize("case", CONVS, ids=lambda c: "-".join(f"{k}{v}" for k, v in c.items()).replace(" ", ""))
def test_convolution(case: dict) -> None:
    found = block(conv("L", "3", **case), "s")
    shift = 1 if case["groups"] else 0
    spatial = tuple(f"i{2 + shift + d}" for d in range(case["dims"]))
    assert (found.kind, found.pattern) == ("contraction", "conv")
    assert found.batch == (("i1",) if case["groups"] else ())
    assert found.left == (f"i{1 + shift}",)
    assert found.right == ("i0", *spatial)
    first = 1 if case["last"] else 2 + shift
    wanted = [
        Expr.of(s) * case["stride"] + Expr.of(f"k{1 + d}") * case["dilation"] - case["pad"][0]
        for d, s in enumerate(spatial)
    ]
    assert [(w.source, w.axis, w.index) for w in found.windows] == [("x", first + d, e) for d, e in enumerate(wanted)]
    padded = any(case["pad"])
    assert (" : " in found.reads[1].relation) == padded


def test_a_kernel_of_one_is_a_matmul_at_any_stride() -> None:
    for stride in (1, 2, 3):
        assert block(conv("L", "1", stride=stride), "s").pattern == "matmul"


def test_depthwise_convolution() -> None:
    module = lowered(
        ["in x : fp16[N, C, L + 2]", "in w : fp16[C, 3]", "out y : fp32[N, C, L]"],
        [
            "%xv = VIEW(x) {index_map=[i0, i1, i2 + i3]} : fp16[N, C, L, 3]",
            "%wv = VIEW(w) {index_map=[i1, i3]} : fp16[N, C, L, 3]",
            "%p = MUL(%xv, %wv) : fp32[N, C, L, 3]",
            "%s = REDUCE(%p) {op=SUM, axes=[3], dtype=fp32} : fp32[N, C, L]",
        ],
        "s",
    )
    found = block(module, "s")
    assert (found.pattern, found.batch, found.left, found.right, found.sum) == (
        "conv",
        ("i1",),
        ("i0", "i2"),
        (),
        ("k0",),
    )


def test_transposed_convolution_by_zeros_between() -> None:
    """Stride 2: each element is followed by a zero (a pad of a new axis), then a plain convolution."""
    module = lowered(
        ["in x : fp16[N, Ci, L]", "in w : fp16[Ci, Co, 3]", "out y : fp32[N, Co, 2*L - 1]"],
        [
            "%x1 = RESHAPE(x) : fp16[N, Ci, L, 1]",
            "%x2 = PAD(%x1) {pad=[[0, 0], [0, 0], [0, 0], [0, 1]]} : fp16[N, Ci, L, 2]",
            "%x3 = RESHAPE(%x2) : fp16[N, Ci, 2*L]",
            "%x4 = PAD(%x3) {pad=[[0, 0], [0, 0], [1, 0]]} : fp16[N, Ci, 2*L + 1]",
            "%xv = VIEW(%x4) {index_map=[i0, i3, i2 + i4]} : fp16[N, Co, 2*L - 1, Ci, 3]",
            "%wv = VIEW(w) {index_map=[i3, i1, 2 - i4]} : fp16[N, Co, 2*L - 1, Ci, 3]",
            "%p = MUL(%wv, %xv) : fp32[N, Co, 2*L - 1, Ci, 3]",
            "%s = REDUCE(%p) {op=SUM, axes=[3, 4], dtype=fp32} : fp32[N, Co, 2*L - 1]",
        ],
        "s",
    )
    found = block(module, "s")
    assert (found.pattern, found.left, found.right) == ("conv", ("i1",), ("i0", "i2"))
    assert [str(w.index) for w in found.windows] == ["floor((i2 + k1 + 1)/2) - 1"]


def test_a_pool_by_repeating_and_cutting_is_a_window() -> None:
    """Windows of 3 over 8 elements without a VIEW: repeat, flatten, cut, split into rows one longer, cut."""
    module = lowered(
        ["in x : fp16[8]", "in w : fp16[3]", "out y : fp32[6]"],
        [
            "%r = EXPAND(x) : fp16[4, 8]",
            "%f = RESHAPE(%r) : fp16[32]",
            "%c = SHRINK(%f) {lo=[0], hi=[27]} : fp16[27]",
            "%q = RESHAPE(%c) : fp16[3, 9]",
            "%d = SHRINK(%q) {lo=[0, 0], hi=[3, 6]} : fp16[3, 6]",
            "%xv = PERMUTE(%d) {perm=[1, 0]} : fp16[6, 3]",
            "%wv = EXPAND(w) : fp16[6, 3]",
            "%p = MUL(%xv, %wv) : fp32[6, 3]",
            "%s = REDUCE(%p) {op=SUM, axes=[1], dtype=fp32} : fp32[6]",
        ],
        "s",
    )
    assert [str(w.index) for w in block(module, "s").windows] == ["i0 + k0"]


def test_grouped_query_attention_repeats_heads() -> None:
    module = lowered(
        ["in q : fp16[B, 4*H, S, 64]", "in k : fp16[B, H, T, 64]", "out y : fp32[B, 4*H, S, T]"],
        [
            "%k1 = RESHAPE(k) : fp16[B, H, 1, T, 64]",
            "%k2 = EXPAND(%k1) : fp16[B, H, 4, T, 64]",
            "%k3 = RESHAPE(%k2) : fp16[B, 4*H, T, 64]",
            "%qx = EXPAND(q) {broadcast_dimensions=[0, 1, 2, 4]} : fp16[B, 4*H, S, T, 64]",
            "%kx = EXPAND(%k3) {broadcast_dimensions=[0, 1, 3, 4]} : fp16[B, 4*H, S, T, 64]",
            "%p = MUL(%qx, %kx) : fp32[B, 4*H, S, T, 64]",
            "%s = REDUCE(%p) {op=SUM, axes=[4], dtype=fp32} : fp32[B, 4*H, S, T]",
        ],
        "s",
    )
    found = block(module, "s")
    assert (found.pattern, found.batch, found.left, found.right) == ("matmul", ("i0", "i1"), ("i2",), ("i3",))
    assert "k[i0, floor(i1/4), i3, k0]" in found.reads[1].relation


def test_a_product_that_others_need_too_is_not_fused() -> None:
    module = lowered(
        ["in a : fp32[M, K]", "in b : fp32[M, K]", "out y : fp32[M]", "out z : fp32[M, K]"],
        ["%p = MUL(a, b) : fp32[M, K]", "%s = REDUCE(%p) {op=SUM, axes=[1], dtype=fp32} : fp32[M]"],
        "s, z=%p",
    )
    assert block(module, "s").kind == "contraction" and block(module, "s").fuses == ()
    assert block(module, "p").kind == "elementwise"


PRODUCT = [
    "%ax = EXPAND(a) {broadcast_dimensions=[0, 2]} : fp32[M, N, K]",
    "%bx = EXPAND(b) {broadcast_dimensions=[1, 2]} : fp32[M, N, K]",
]
SUM = "%s = REDUCE(%r) {op=SUM, axes=[2], dtype=fp32} : fp32[M, N]"
MISSES = {
    "max": (["%r = MUL(%ax, %bx) : fp32[M, N, K]", SUM.replace("SUM", "MAX")], "by MAX"),
    "min": (["%r = MUL(%ax, %bx) : fp32[M, N, K]", SUM.replace("SUM", "MIN")], "by MIN"),
    "prod": (["%r = MUL(%ax, %bx) : fp32[M, N, K]", SUM.replace("SUM", "PROD")], "by PROD"),
    "argmax": (
        [
            "%r = MUL(%ax, %bx) : fp32[M, N, K]",
            SUM.replace("SUM", "ARGMAX").replace("dtype=fp32", "dtype=i64").replace(": fp32", ": i64"),
        ],
        "by ARGMAX",
    ),
    "add": (["%r = ADD(%ax, %bx) : fp32[M, N, K]", SUM], "is ADD"),
    "sub": (["%r = SUB(%ax, %bx) : fp32[M, N, K]", SUM], "is SUB"),
    "maximum": (["%r = MAX(%ax, %bx) : fp32[M, N, K]", SUM], "is MAX"),
    "division": (["%r = FDIV(%ax, %bx) : fp32[M, N, K]", SUM], "is FDIV"),
    "power": (["%r = POW(%ax, %bx) : fp32[M, N, K]", SUM], "is POW"),
    "exp of the product": (["%p = MUL(%ax, %bx) : fp32[M, N, K]", "%r = EXP2(%p) : fp32[M, N, K]", SUM], "is EXP2"),
    "relu of the product": (["%p = MUL(%ax, %bx) : fp32[M, N, K]", "%r = RELU(%p) : fp32[M, N, K]", SUM], "is RELU"),
    "rounded product": (["%p = MUL(%ax, %bx) : fp32[M, N, K]", "%r = CAST(%p) : fp16[M, N, K]", SUM], "is CAST"),
    "sum of two": (["%p = MUL(%ax, %bx) : fp32[M, N, K]", "%r = ADD(%p, %ax) : fp32[M, N, K]", SUM], "is ADD"),
    "three way choice": (
        ["%c = CMPLT(%ax, %bx) : bool[M, N, K]", "%r = WHERE(%c, %ax, %bx) : fp32[M, N, K]", SUM],
        "is WHERE",
    ),
    "one operand": (["%r = NEG(%ax) : fp32[M, N, K]", SUM], "is NEG"),
    "no product": ([SUM.replace("%r", "%ax")], "is an input"),
    "exp on an operand": (
        ["%e = EXP2(%ax) : fp32[M, N, K]", "%r = MUL(%e, %bx) : fp32[M, N, K]", SUM],
        "after its broadcast along i1",
    ),
    "minus on an operand": (
        ["%e = NEG(%bx) : fp32[M, N, K]", "%r = MUL(%ax, %e) : fp32[M, N, K]", SUM],
        "after its broadcast along i0",
    ),
    "padded with one": (
        [
            "%p = MUL(%ax, %bx) : fp32[M, N, K]",
            "%r = PAD(%p) {pad=[[0, 0], [0, 0], [1, 1]], value=1.0} : fp32[M, N, K + 2]",
            SUM,
        ],
        "padded with a value other than 0",
    ),
    "chosen by data": (
        ["%p = MUL(%ax, %bx) : fp32[M, N, K]", "%r = GATHER(%p, t) {axis=2} : fp32[M, N, L]", SUM],
        "is GATHER",
    ),
    "running sum": (
        ["%p = MUL(%ax, %bx) : fp32[M, N, K]", "%r = SCAN(%p) {op=SUM, axis=2, dtype=fp32} : fp32[M, N, K]", SUM],
        "is SCAN",
    ),
}


@pytest.mark.parametrize("name", MISSES)
def test_near_miss(name: str) -> None:
    lines, why = MISSES[name]
    dtype = "i64" if name == "argmax" else "fp32"
    module = lowered(
        ["in a : fp32[M, K]", "in b : fp32[N, K]", "in t : i64[L]", f"out y : {dtype}[M, N]"], [*PRODUCT, *lines], "s"
    )
    said = [d for d in poly.remarks(module) if d.at == "s"]
    assert block(module, "s").kind == "reduction"
    assert [d.code for d in said] == ["R3203"] and why in said[0].facts["why"]
