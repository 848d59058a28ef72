"""Attention as one kernel beside torch's by cuDNN, by FlashAttention 2 and by FlexAttention, on one card, in one run.

    python tests/bench/attention.py [--part fp16 odd bf16 forms masks] [--only WORD...] [--without RIVAL...]
      [--out results.json] [--texts DIR] [--limit S]   measure, all or some parts, all cases or those whose names have
                                                       one of the words; needs a GPU, PyCUDA, torch
    python tests/bench/attention.py --emit DIR                                       only write the CUDA texts, which
      needs none of them
    python tests/bench/attention.py --table results.json                             print the tables of docs
    python tests/bench/attention.py --arch sm80 [--plans N]                          sm80's form (`attention_sm80`)

Each model goes through the whole compiler, and the plan is the cost model's own choice for that shape. Operands are
random normal. Ours and every rival that takes the case are compared with fp64 on rows spread over the first and the
last head; our error may be 1.1 times that of the nearest rival at most, and all outputs are near those of the first
rival; one whose output is not finite is left out. Then all are timed in turns as CUDA graphs, each run from a cold L2
cache. Medians in microseconds; a masked score counts no operation. After `--limit` seconds no further case is begun;
the file says which were not.
"""

from __future__ import annotations

import functools
import json
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.attention_forms import FORMS, added, operands, written  # noqa: E402
from tests.bench.attention_forms import flex as flex_of  # noqa: E402
from tests.bench.card import card_here  # noqa: E402
from tests.bench.measured import is_done_without_a_card, mean, measure, options, text_and_remarks, texts_of  # noqa: E402

TOKENS = 16384  # of all batches together
HIDDEN = 2048  # of all heads together
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
ODD_LENGTHS = (197, 1000, 1500, 4093)
ODD_DEPTHS = (40, 72, 80, 96, 120)
DEPTHS = (64, 128, 256)
RUNS = 15
ROWS_CHECKED = 256
MOST_ERROR = 1.1  # times the nearest rival's
NEAR = {"fp16": 2e-3, "bf16": 1.6e-2}  # of the outputs of two kernels, as a share of their norm
RIVALS = ("cudnn", "fa2", "flex")


@dataclass(frozen=True, slots=True)
class Case:
    """One attention: Q [batch, heads, length, depth], K and V with `kv` heads. `window` keys of a row count, 0 all that
    causality leaves; `bias` is added to the scores, [1, heads, length, length], of dtype `beside` where that is said;
    `extra` is one of `attention_forms.FORMS`."""

    dtype: str
    batch: int
    heads: int
    kv: int
    length: int
    depth: int
    is_causal: bool = False
    window: int = 0
    softcap: float = 0.0
    has_bias: bool = False
    extra: str = ""
    beside: str = ""

    @property
    def name(self) -> str:
        """A file's stem."""
        return f"{self.dtype}_{self.batch}x{self.heads}x{self.length}x{self.depth}_{self.form.replace(' ', '_')}"

    @property
    def form(self) -> str:
        """What sets it apart but for sizes."""
        words = [
            "causal" if self.is_causal else "full",
            f"{self.heads}:{self.kv} heads" if self.kv != self.heads else "",
            f"window {self.window}" if self.window else "",
            f"soft-cap {self.softcap:g}" if self.softcap else "",
            f"{self.beside} bias".strip() if self.has_bias else "",
            self.extra,
        ]
        return " ".join(filter(None, words))

    @property
    def flops(self) -> int:
        """Of both products, over the scores that count."""
        rows, most = self.length, self.window or self.length
        seen = sum(min(row + 1, most) for row in range(rows)) if self.is_causal else rows * rows
        return 4 * self.batch * self.heads * self.depth * seen

    @property
    def is_plain(self) -> bool:
        """Whether it is of the sweep that cuDNN's mean is taken over."""
        return self.form in ("full", "causal") and self.length in LENGTHS and self.depth in DEPTHS

    @property
    def rounded(self) -> Case:
        """The case with whole blocks of 64 rows and a depth of whole products."""
        return replace(self, length=-(-self.length // 64) * 64, depth=-(-self.depth // 16) * 16)


def sweep(dtype: str, lengths: Iterable[int], depths: Iterable[int]) -> list[Case]:
    """Full and causal cases with as many tokens."""
    return [
        Case(dtype, max(1, TOKENS // length), HIDDEN // depth, HIDDEN // depth, length, depth, is_causal)
        for depth in depths
        for is_causal in (False, True)
        for length in lengths
    ]


def odd_cases() -> list[Case]:
    """Lengths and depths that tiles do not divide, and beside each the size rounded up."""
    found = []
    for is_causal in (False, True):
        for length in ODD_LENGTHS:
            batch = max(1, TOKENS // (-(-length // 64) * 64))
            found += [Case("fp16", batch, HIDDEN // d, HIDDEN // d, length, d, is_causal) for d in (64, 128)]
        found += [Case("fp16", 8, 16, 16, 2048, depth, is_causal) for depth in ODD_DEPTHS]
    return list(dict.fromkeys(one for case in found for one in (case, case.rounded)))


def form_cases() -> list[Case]:
    """What is more than a plain sweep; most need a rival to be compiled."""
    return [
        Case("fp16", 4, 32, 8, 4096, 128, is_causal=True),
        Case("fp16", 1, 16, 16, 16384, 128, is_causal=True, window=1024),
        Case("fp16", 4, 16, 16, 4096, 128, has_bias=True),
        Case("fp16", 4, 16, 16, 4096, 128, has_bias=True, beside="fp32"),
        Case("fp16", 4, 16, 16, 4096, 128, is_causal=True, softcap=50.0),
        *(Case("fp16", 4, 16, 16, 4096, 128, extra not in ("relative", "mask"), extra=extra) for extra in FORMS),
    ]


def mask_cases() -> list[Case]:
    """Tensors that scores meet: a bias of 16 bits, one of fp32, and truth values."""
    found = []
    for is_causal in (False, True):
        for depth in DEPTHS:
            one = Case("fp16", 4, HIDDEN // depth, HIDDEN // depth, 4096, depth, is_causal)
            found += [
                replace(one, has_bias=True),
                replace(one, has_bias=True, beside="fp32"),
                replace(one, extra="mask"),
            ]
    return found


PARTS: dict[str, Callable[[], list[Case]]] = {
    "fp16": lambda: sweep("fp16", LENGTHS, DEPTHS),
    "odd": odd_cases,
    "bf16": lambda: sweep("bf16", LENGTHS, DEPTHS),
    "forms": form_cases,
    "masks": mask_cases,
}


def cases(parts: Iterable[str] = PARTS, words: Sequence[str] = ()) -> list[Case]:
    """What is measured, in this order: those that need a rival to be compiled come last. With words only the cases
    whose names have one of them."""
    return only(dict.fromkeys(case for part in parts for case in PARTS[part]()), words)


def only(found: Iterable[Case], words: Sequence[str]) -> list[Case]:
    """The cases whose names have one of the words, where there are any."""
    return [case for case in found if not words or any(word in case.name for word in words)]


def model_of(case: Case) -> str:
    """The model in front-end JSON: batch and length symbolic, planned for the case."""
    shapes = {
        name: ["B", heads, "S", case.depth] for name, heads in zip("QKVO", (case.heads, case.kv, case.kv, case.heads))
    }
    inputs = ["Q", "K", "V"]
    if case.has_bias:
        shapes["bias"] = [1, case.heads, "S", "S"]
        inputs.append("bias")
    attrs: dict[str, Any] = {"causal": case.is_causal}
    if case.window:
        attrs["window"] = case.window
    if case.softcap:
        attrs["softcap"] = case.softcap
    node = {"op": "Attention", "name": "attention", "inputs": inputs, "outputs": ["O"], "attrs": attrs}
    model = {
        "name": "attention",
        "signature": {"inputs": [{"tensor": n} for n in inputs], "outputs": [{"tensor": "O"}]},
        "tensors": {
            name: {"dtype": case.beside if name == "bias" and case.beside else case.dtype, "shape": shape}
            for name, shape in shapes.items()
        },
        "graph": [node],
        "shape_sets": {"bench": {"B": case.batch, "S": case.length}},
    }
    return json.dumps(model)


def emitted(case: Case) -> str:
    """The CUDA text."""
    from tinyir.front import read
    from tinyir.ir import manifest
    from tinyir.ir.pipeline import STAGES
    from tinyir.lower import lower_to

    module: Any = written(case) if case.extra else read(model_of(case), "attention.json")
    for stage in STAGES[1:]:
        module = lower_to(stage, module, "sm90", card_here())
    return manifest.show(module)


def operands_of(case: Case) -> dict[str, Any]:
    """Random numbers on the card; O holds NaN."""
    import torch

    torch.manual_seed(case.length + case.depth)
    kind = {"fp16": torch.float16, "bf16": torch.bfloat16}[case.dtype]

    def drawn(heads: int) -> Any:
        return torch.randn(case.batch, heads, case.length, case.depth, device="cuda").to(kind)

    x = {"Q": drawn(case.heads), "K": drawn(case.kv), "V": drawn(case.kv)}
    x["O"] = torch.full_like(x["Q"], math.nan)
    if case.has_bias:
        bias = torch.randn(1, case.heads, case.length, case.length, device="cuda")
        x["bias"] = bias if case.beside == "fp32" else bias.to(kind)
    return {**x, **(operands(case) if case.extra else {})}


def rivals_of(case: Case, x: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    """Torch's ways that compute the case, by name; each gives [batch, heads, length, depth]."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def by(backend: Any) -> Callable[[], Any]:
        def run() -> Any:
            with sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(
                    x["Q"],
                    x["K"],
                    x["V"],
                    attn_mask=x.get("bias", x.get("mask")),
                    is_causal=case.is_causal,
                    enable_gqa=case.heads != case.kv,
                )

        return run

    if case.extra == "mask":
        return {"cudnn": by(SDPBackend.CUDNN_ATTENTION), "flex": flex_of(case, x)}
    if case.extra and case.extra != "log-sum-exp":
        return {"flex": flex_of(case, x)}
    if case.softcap:
        return {"flex": flex(case, x)}
    if case.window:
        turned = [x[name].transpose(1, 2) for name in "QKV"]  # [batch, length, heads, depth], as the op asks

        def windowed() -> Any:
            found = torch.ops.aten._flash_attention_forward(
                *turned, None, None, case.length, case.length, 0.0, True, False, window_size_left=case.window - 1,
                window_size_right=0,
            )  # fmt: skip
            return found[0].transpose(1, 2)

        return {"fa2": windowed, "flex": flex(case, x)}
    if case.has_bias:
        return {"cudnn": by(SDPBackend.CUDNN_ATTENTION), "flex": flex(case, x)}
    return {"cudnn": by(SDPBackend.CUDNN_ATTENTION), "fa2": by(SDPBackend.FLASH_ATTENTION)}


def flex(case: Case, x: dict[str, Any]) -> Callable[[], Any]:
    """FlexAttention, compiled at its first call."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    bias, cap, window = x.get("bias"), case.softcap, case.window or case.length

    def score(value: Any, batch: Any, head: Any, row: Any, column: Any) -> Any:
        if cap:
            return cap * torch.tanh(value / cap)
        return value + bias[0, head, row, column] if bias is not None else value

    def counts(batch: Any, head: Any, row: Any, column: Any) -> Any:
        return (row >= column) & (row - column < window)

    @functools.cache
    def prepared() -> Any:
        sizes = (None, None, case.length, case.length)
        mask = create_block_mask(counts, *sizes, device="cuda") if case.is_causal else None
        compiled = torch.compile(flex_attention, dynamic=False)
        return lambda: compiled(x["Q"], x["K"], x["V"], score_mod=score, block_mask=mask)

    return lambda: prepared()()


def wanted_of(case: Case, x: dict[str, Any]) -> tuple[Any, Any]:
    """Rows of the first and of the last head in fp64, and which these are: functions of an output."""
    import torch

    rows = torch.linspace(0, case.length - 1, min(case.length, ROWS_CHECKED), device="cuda").long()
    places = ((0, 0), (case.batch - 1, case.heads - 1))
    each, columns, found = case.heads // case.kv, torch.arange(case.length, device="cuda"), []
    for batch, head in places:
        key, value = (x[name][batch, head // each].double() for name in "KV")
        scores = x["Q"][batch, head, rows].double() @ key.t() / math.sqrt(case.depth)
        if case.softcap:
            scores = case.softcap * torch.tanh(scores / case.softcap)
        if case.has_bias:
            scores = scores + x["bias"][0, head, rows].double()
        if case.extra:
            scores = scores + added(case, x, batch, head, rows, columns)
        if case.is_causal:
            apart = rows[:, None] - columns[None, :]
            scores = scores.masked_fill((apart < 0) | (apart >= (case.window or case.length)), -math.inf)
        found.append(scores.softmax(-1) @ value)

    def of(output: Any) -> Any:
        return torch.stack([output[batch, head, rows].double() for batch, head in places])

    return torch.stack(found), of


def graph_of(device: Any, run: Callable[[], Any]) -> Callable[[], None]:
    """A replay on the device's stream of what torch does, from a memory pool of its own."""
    import torch

    from tests.bench.gemm import on_stream

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(2):
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return on_stream(device, graph.replay)


def measure_case(device: Any, text: str, case: Case, without: Sequence[str] = ()) -> dict[str, Any]:
    """One row: errors and times of ours and of each rival but for those `without`, or why a rival has none."""
    import torch

    from tests.bench.gemm import timed
    from tinyir.ir import manifest
    from tinyir.runtime.device import Buffer
    from tinyir.runtime.graph import Graph
    from tinyir.runtime.program import Program

    x, sizes = operands_of(case), {} if case.extra else {"B": case.batch, "S": case.length}
    kept = {name: Buffer(name, t.data_ptr(), t.numel(), t.element_size(), 0) for name, t in x.items()}
    program = Program(device, text, manifest.parse(text), sizes, kept=kept)
    torch.cuda.synchronize()
    program.run()
    device.stream.synchronize()
    wanted, rows_of = wanted_of(case, x)

    def error_of(output: Any) -> float:
        return float((rows_of(output) - wanted).norm() / wanted.norm())

    errors, replays, refused, apart = {"ours": error_of(x["O"])}, {}, {}, None
    for name, run in rivals_of(case, x).items():
        if name in without:
            continue
        try:
            output = run()
            error = error_of(output)
            if not math.isfinite(error):
                refused[name] = "its output is not finite"
                continue
            errors[name] = error
            if apart is None:
                apart = float((x["O"].float() - output.float()).norm() / output.float().norm())
            del output
            replays[name] = graph_of(device, run)
        except Exception as fault:  # a rival that does not take the case is said so, and the others are measured
            refused[name] = f"{type(fault).__name__}: {str(fault).splitlines()[0][:120]}"
    nearest = min((error for name, error in errors.items() if name != "ours"), default=NEAR[case.dtype])
    is_near = errors["ours"] <= MOST_ERROR * nearest and (apart is None or apart <= NEAR[case.dtype])
    with Graph(device.stream.handle, program.enqueue) as ours:
        mine, *theirs = timed(device, [ours.run, *replays.values()], RUNS)
    us = {"ours": mine, **dict(zip(replays, theirs))}
    plan = next(line for line in text.splitlines() if line.startswith("// plan "))
    program.release()
    return {
        "case": asdict(case),
        "plan": plan.removeprefix("// plan "),
        "kernels": len(program.chosen),
        "errors": errors,
        "apart": apart,
        "is_near": is_near,
        "us": us,
        "tflops": {name: case.flops / one / 1e6 for name, one in us.items()},
        "ratio": {name: one / mine for name, one in us.items() if name != "ours"},
        "refused": refused,
    }


def _cell(row: dict[str, Any]) -> str:
    """Our TFLOP/s, and cuDNN's time over ours where it has one."""
    over = f", {row['ratio']['cudnn']:.2f}" if "cudnn" in row["ratio"] else ""
    return f"{row['tflops']['ours']:.0f}{over}"


def tables(rows: list[dict[str, Any]]) -> str:
    """The sweep as a table of each dtype and depth, and the other cases in one."""
    found, done = [], [(Case(**row["case"]), row) for row in rows]
    found += ["| dtype, depth, form | " + " | ".join(map(str, LENGTHS)) + " | mean, least | over FA2 |"]
    found += ["| --- |" + " --- |" * (len(LENGTHS) + 2)]
    plain = [(case, row) for case, row in done if case.is_plain]
    for key in dict.fromkeys((case.dtype, case.depth, case.form) for case, _ in plain):
        of = {c.length: r for c, r in plain if (c.dtype, c.depth, c.form) == key}
        cells = [_cell(of[n]) if n in of else "" for n in LENGTHS]
        ratios = {name: [r["ratio"][name] for r in of.values() if name in r["ratio"]] for name in ("cudnn", "fa2")}
        by_cudnn, by_fa2 = ratios["cudnn"], ratios["fa2"]
        ends = f"{mean(by_cudnn):.3f}, {min(by_cudnn):.3f}" if by_cudnn else ""
        ends += f" | {mean(by_fa2):.2f}" if by_fa2 else " | "
        found.append(f"| {key[0]}, {key[1]}, {key[2]} | {' | '.join(cells)} | {ends} |")
    found += ["", "| case | ours | " + " | ".join(RIVALS) + " |", "| --- |" + " --- |" * (len(RIVALS) + 1)]
    for case, row in done:
        if not case.is_plain:
            cells = [f"{row['us'][n]:.1f} us, {row['ratio'][n]:.2f}" if n in row["us"] else "" for n in RIVALS]
            sizes = f"{case.dtype}, {case.batch} x {case.heads} x {case.length} x {case.depth}, {case.form}"
            found.append(f"| {sizes} | {row['us']['ours']:.1f} us, {row['tflops']['ours']:.0f} | {' | '.join(cells)} |")
    found += ["", "| odd size | us | rounded up | times |", "| --- | --- | --- | --- |"]
    us = {case: row["us"]["ours"] for case, row in done}
    for case in us:
        if case != case.rounded and case.rounded in us:
            ratio = us[case] / us[case.rounded]
            sizes = f"{case.batch} x {case.heads} x {case.length} x {case.depth}, {case.form}"
            found.append(f"| {sizes} | {us[case]:.1f} | {us[case.rounded]:.1f} | {ratio:.3f} |")
    return "\n".join(found)


def line(case: Case, row: dict[str, Any]) -> str:
    """What is printed of a case."""
    theirs = " ".join(f"{name} {ratio:.3f}" for name, ratio in row["ratio"].items())
    return f"{row['us']['ours']:.1f} us, {row['tflops']['ours']:.0f}, {theirs}"


def main() -> int:
    """Emit, print tables, or measure; the exit code."""
    parser = options(__doc__, "attention.json")
    parser.add_argument("--arch", choices=("sm80", "sm90"), default="sm90")
    parser.add_argument("--plans", type=int, default=4)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--without", nargs="+", choices=RIVALS, default=())
    args = parser.parse_args()
    if is_done_without_a_card(args, cases(), emitted, tables):
        return 0
    if args.arch == "sm80":
        from tests.bench import attention_sm80

        return attention_sm80.measure(args.out, args.limit, args.plans, args.only)
    texts = texts_of(
        cases(args.part, args.only), functools.partial(text_and_remarks, folder=args.texts, emitted=emitted)
    )
    measured = functools.partial(measure_case, without=args.without)
    return measure(texts, args.out, args.limit, measured, line, tables)


if __name__ == "__main__":
    sys.exit(main())
