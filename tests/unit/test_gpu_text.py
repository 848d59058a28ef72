"""Gpu text: every form reads and prints alike, blocks nest by indentation, and planted faults are found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tinyir.front.json import read
from tinyir.ir import gpu
from tinyir.kit.diag import Refused
from tinyir.lower import lower_to

from .checked import check_gpu

DESIGN = Path(__file__).resolve().parents[1] / "golden" / "design"
HEAD = """\
tinyir 1.2 gpu

model m
  in  X           : fp32[N]
  in  I           : i64[N]
  out Y           : fp32[N]
  sym N in 1..65536
shapes default {N=1024}

program m

region act
  in  X           : fp32[N]
  in  I           : i64[N]
  out Y           : fp32[N]
  for i0: N
    %y             = add(X[i0], cast(I[i0]) : fp32)
  yield Y[i0] = %y

plan act : sm90 map
  algo       flat
  tile       [128]
  micro      [1]
  threads    [128]
  stages     1
  bind       i0.o -> cta.x, i0.i -> thread.x
  predicate  [i0]

"""
FORMS = """\
kernel act : sm90 grid [floor((N + 127)/128)] block [128] cluster [1] regs 64
  assume N - 4*floor(N/4) = 0
  tensor_map X.map = X box [128] swizzle 128 round tf32
  pick Z = [X, Y] at cta.y
  shared x : fp32[128] ring 2 swizzle 128
  shared y : fp32[128]
  shared part : fp32[4]
  reg acc : fp32[64, 16] wgmma = 0.0
  reg af : fp32[64, 16] ring 2 wgmma_a
  reg rows : fp32[64] rows = -inf
  reg parts : fp32[64] row_parts = 0.0
  reg own : fp32[4] = 1.0
  reg ringed : fp32[4] ring 2
  mbarrier full ring 2 count 1
  mbarrier empty ring 2 count 1
  fence mbarrier_init
  barrier cluster
  wait_previous
  launch_next
  cursor p ring 2 at 1 phase 1
  let base = 128*cta.x
  least end = [N, base + 128]
  most begin = [0, base - 1]
  order [tm, tn] = cta.x in [4, 8] group 2
  order [tk, tl] = cta.x in [4, 8]
  order [tq, tr] = cta.x in [4, 8] group 2 turning
  copy y[r] over r: 128 with i0 = base + r = X[i0] where i0 < N else 0.0
  %load.y = cp_async y[r] over r: 128 with i0 = base + r = X[i0] where i0 < N else 0.0 vector 4
  commit %load.y
  wait_group cp_async pending 0 for %load.y
  barrier cta
  for k in 0..N step 2 unroll 4
    for v in 0..4 unroll
      own[v] = y[thread.x]
    ringed[p.slot][v] over v: 4 = own[v] vector 4
    advance p
    advance p by 3
  if thread.x < 64 and 0 <= base
    %a = add(y[thread.x], 1.0)
  else
    %a = y[thread.x]
  choose at = I[base] below N
  warp_reduce sum own width 32
  block_reduce max own via part
  block_scan sum exclusive own after own via part
  ticket turn of I[0] below 12 via part
  publish own to X[turn]
  publish own to X[turn] with Y
  look_back max own from X[turn] via part
  look_back max own from X[turn] via part with Y
  atomic sum Y[at] = own[0]
  role consumer warpgroups 0..1 regs 240
    wait full[p.slot] phase p.phase for %load.x
    %m = wgmma acc += x[p.slot] trans * x[p.slot] shape m64n16k8 steps 2 zero base = 0
    wait_group wgmma pending 0 for %m
    each r, c of acc
      acc[r, c] = mul(acc[r, c], rows[r])
    row_reduce sum acc into rows
    row_reduce sum acc into parts
    each r of rows approx
      rows[r] = exp2(rows[r])
    ldmatrix af[0] <- x[p.slot][0] trans low af[1]
    split x[0] <- x[1]
    resum acc[base, 0] over t: N = mul(X[t], X[t])
    barrier 1 threads 128
    %s = tma_store X.map[base] <- y[0]
    wait_group tma_store pending 0 for %s
    store_rows X[base, 0] as [N, 2] box [8, 2] <- y[0]
    arrive empty[p.previous] cluster [0]
    drain empty from p
    arrive full[p.slot] expect 512 B
    %load.x = tma_load x[p.slot] <- X.map[base] on full[p.slot] multicast [0, 1]
    barrier cluster arrive
    barrier cluster wait
    %part = send x[0] <- y[1] size [16] to cluster.rank on full[0]
"""
GOOD = """\
kernel act : sm90 grid [floor((N + 127)/128)] block [128]
  shared x : fp32[128]
  let base = 128*cta.x
  copy x[r] over r: 128 with i0 = base + r = X[i0] where i0 < N else 0.0
  barrier cta
  if base + thread.x < N
    %y = add(x[thread.x], cast(I[base + thread.x]) : fp32)
    store Y[base + thread.x] = %y
"""


def codes(text: str) -> list[str]:
    """What parse or check finds."""
    try:
        return sorted({d.code for d in check_gpu(gpu.parse(HEAD + text))})
    except Refused as fault:
        return sorted({d.code for d in fault.diags})


def test_every_form_reads_and_prints_alike() -> None:
    module = gpu.parse(HEAD + FORMS)
    assert gpu.show(module) == HEAD + FORMS
    used = {type(s).__name__ for s in _all(module.kernels[0].body)}
    from tinyir.ir.gpu import nodes

    every = {c.__name__ for c in nodes.Statement.__args__}
    assert every - used <= {"Ldmatrix", "Mma", "Store"}  # those are in the design examples


def _all(body: tuple) -> list:
    return [
        s
        for statement in body
        for s in (statement, *_all(getattr(statement, "body", ())), *_all(getattr(statement, "otherwise", ())))
    ]


def test_a_sound_kernel_has_no_fault() -> None:
    assert codes(GOOD) == []


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("    store", "      store", "E1601"),
        ("  if base + thread.x < N\n", "", "E1601"),
        ("  barrier cta\n", "  else\n    barrier cta\n", "E1601"),
        ("copy x[r]", "copy X[r]", "E1602"),
        ("  barrier cta", "  barrier block", "E1602"),
        ("block [128]", "block [32, 64]", "E1603"),
        (" : sm90 grid", " : sm75 grid", "E1603"),
        ("kernel act", "kernel other", "E1604"),
        ("Y[base + thread.x] =", "Y[base + lane.x] =", "E1605"),
        ("= %y", "= %z", "E0202"),
        ("with i0 =", "with base =", "E1606"),
        ("x[thread.x]", "x[thread.x, 0]", "E1607"),
        ("x[thread.x]", "x[0][thread.x]", "E1607"),
        ("shared x : fp32[128]", "shared x : fp32[128] ring 600", "E1607"),
        ("  barrier cta\n", "  if thread.x < 32\n    barrier cta\n", "E1609"),
        ("  barrier cta\n", "  for s in 0..thread.x\n    barrier cta\n", "E1609"),
        ("  barrier cta\n", "", "E1613"),
        ("x[thread.x]", "x[thread.x + 1]", "E1614"),
        ("over r: 128", "over r: 129", "E1614"),
        ("where i0 < N else 0.0", "where i0 < N + 1 else 0.0", "E1615"),
        ("if base + thread.x < N", "if base < N", "E1615"),
        ("Y[base + thread.x] =", "Y[base + thread.x - 1] =", "E1615"),
    ],
)
def test_planted_fault_is_found(old: str, new: str, code: str) -> None:
    assert old in GOOD
    assert code in codes(GOOD.replace(old, new))


def test_refilling_before_readers_are_done_is_found() -> None:
    looped = (
        GOOD.replace("  copy x", "  for k in 0..4\n    copy x")
        .replace("  barrier cta\n  if", "    barrier cta\n    if")
        .replace("\n    %y", "\n      %y")
    )
    looped = looped.replace("\n    store", "\n      store")
    assert codes(looped) == ["E1613"]
    assert codes(looped + "    barrier cta\n") == ["E1619"]  # and the loop stores four times


@pytest.mark.parametrize("name", ["mod", "floor", "and"])
def test_elements_are_counted_over_a_loop_that_is_called_like_a_word_of_isl(name: str) -> None:
    looped = GOOD.replace("    store", f"    for {name} in 0..2\n      store")
    assert codes(looped) == ["E1619"]


ASYNC = GOOD.replace("  copy x", "  %t = cp_async x").replace(
    "  barrier cta\n", "  commit %t\n  wait_group cp_async pending 0 for %t\n  barrier cta\n"
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  commit %t\n", ""),
        ("  wait_group cp_async pending 0 for %t\n", ""),
        ("for %t\n", "for %u\n"),
        ("wait_group cp_async", "wait_group wgmma"),
    ],
)
def test_misused_token_is_found(old: str, new: str) -> None:
    assert codes(ASYNC) == []
    assert "E1612" in codes(ASYNC.replace(old, new))


@pytest.mark.parametrize(
    ("example", "old", "new", "code"),
    [
        ("gemm_sm90", "          wait empty[p.slot] phase p.phase\n", "", "E1613"),
        ("gemm_sm90", "expect 49152 B", "expect 32768 B", "E1618"),
        ("gemm_sm90", "      wait_group wgmma pending 0 for %mma\n", "", "E1617"),
        (
            "gemm_sm90",
            "wait full[s.slot] phase s.phase for %load.a, %load.b",
            "wait full[s.slot] phase s.phase for %load.a",
            "E1612",
        ),
        ("gemm_sm90", "        barrier warpgroup\n        each", "        barrier cta\n        each", "E1609"),
        ("gemm_sm90", "fp16[64, 64] ring 4", "fp16[64, 64] ring 6", "E1608"),
        ("gemm_sm90", "regs 232", "regs 240", "E1608"),
        ("gemm_sm90", "regs 40", "regs 41", "E1602"),
        ("gemm_sm80", "    wait_group cp_async pending 1 for %first.a, %first.b, %load.a, %load.b\n", "", "E1613"),
        ("gemm_sm80", " : sm80 grid", " : sm90 grid", None),
        ("conv_pad_stride", "and pixel < N*ho*wo\n", "\n", "E1615"),
        ("conv_pad_stride", "shape m16n8k16", "shape m16n8k32", "E1602"),
        ("layernorm", "    if i1 < C\n", "    if i1 < C + 1\n", "E1615"),
        ("layernorm", "block_reduce sum sum via part", "block_reduce sum part via part", "E1602"),
        ("attention_causal", "      wait_group wgmma pending 0 for %qk\n", "", "E1617"),
        ("attention_causal", "assume 1 <= B and", "assume 1 <= lane and", "E1605"),  # which the launch does not know
    ],
)
def test_planted_fault_in_a_design_example_is_found(example: str, old: str, new: str, code: str | None) -> None:
    text = (DESIGN / f"{example}.gpu").read_text(encoding="utf-8")
    kernel = text.index("\nkernel ")
    assert old in text[kernel:]
    found = {d.code for d in check_gpu(gpu.parse(text[:kernel] + text[kernel:].replace(old, new)))}
    assert (code in found) if code else not found


def test_tensors_of_any_name_are_read_back() -> None:
    """Registers are named after the tensors that they hold, and these may be called what no name can be."""
    names = ["0", "a-b", "a_b", "x.1", "if"]
    tensors = {n: {"dtype": "fp32", "shape": [9, 7 + k]} for k, n in enumerate(names)} | {
        f"{n} out": {"dtype": "fp32", "shape": [9, 7 + k]} for k, n in enumerate(names)
    }
    ops = [{"op": "Softmax", "inputs": [n], "outputs": [f"{n} out"], "attrs": {"axis": -1}} for n in names]
    signature = {"inputs": [{"tensor": n} for n in names], "outputs": [{"tensor": f"{n} out"} for n in names]}
    module = read(json.dumps({"signature": signature, "tensors": tensors, "graph": ops}))
    for stage in ("index", "poly", "region", "plan", "gpu"):
        module = lower_to(stage, module, "sm90")
    assert gpu.parse(gpu.show(module)) == module and check_gpu(module) == []


def test_spans_stand_on_the_statement() -> None:
    text = HEAD + GOOD.replace("x[thread.x]", "x[thread.x + 1]")
    (fault,) = check_gpu(gpu.parse(text))
    assert text[fault.span.start : fault.span.end].startswith("%y = add(")
