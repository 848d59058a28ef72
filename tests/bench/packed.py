"""Products with weights of few bits beside cuBLAS with the same weights in fp16, and beside a copy of the packed bytes,
on one card, in one run.

    python tests/bench/packed.py [--out packed.json] [--variants 6] [--only int4]    measure; needs a GPU, PyCUDA,torch
    python tests/bench/packed.py --emit DIR                              only write the CUDA texts

W[n, k] = (Q[n, k] - 2 ** (bits - 1)) * S[n, k / block], as onnxruntime's MatMulNBits has it; `gptq` and `awq`: words
of eight numbers of four bits along the sum and along the columns, with zero points (`tests/unit/packed_words.py`).
Each model goes through the whole compiler, and the plan is the cost model's own choice; `--variants` also times other
plans of its table. The result is compared with torch in fp64 first. All are timed in turns as CUDA graphs, each run
behind a write of four times the L2 cache. Medians in microseconds; a copy moves half of the bytes from one place to
another.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.card import card_here, versions_here  # noqa: E402
from tests.unit.packed_words import EACH, LAYOUTS, model_of_words  # noqa: E402
from tests.unit.test_packed_weights import model_of  # noqa: E402

RUNS = 15
BLOCK = 128
SIZES = ((4096, 4096), (11008, 4096), (4096, 11008), (28672, 8192))  # columns, depth
ROWS = (1, 4, 8, 16, 64)
NEAR = 2e-3  # of the largest number of the output


@dataclass(frozen=True)
class Case:
    """Y[rows, columns] of a sum of `depth` with weights of `bits`."""

    rows: int
    columns: int
    depth: int
    bits: int
    layout: str = ""

    @property
    def name(self) -> str:
        """A file's stem."""
        return f"{self.layout or f'int{self.bits}'}_{self.rows}x{self.columns}x{self.depth}"

    @property
    def bytes(self) -> int:
        """Packed weights and their scales, rows and results."""
        weights = self.columns * self.depth
        zeros = weights // BLOCK * self.bits // 8 if self.layout else 0
        return weights * self.bits // 8 + zeros + 2 * (weights // BLOCK + self.rows * (self.columns + self.depth))

    @property
    def text(self) -> str:
        """The model."""
        if self.layout:
            return model_of_words(self.layout, self.rows, self.columns, self.depth, BLOCK)
        return model_of(self.rows, self.columns, self.depth, self.bits, BLOCK)


def cases() -> list[Case]:
    """What is measured."""
    forms = [(4, ""), (8, ""), *((4, layout) for layout in LAYOUTS)]
    return [Case(rows, *size, *form) for form in forms for size in SIZES for rows in ROWS]


def texts_of(case: Case, variants: int = 0) -> list[tuple[str, str]]:
    """The choice of the cost model, and other plans of one kernel, each with its CUDA text."""
    from tinyir.front import read
    from tinyir.ir import manifest, plan
    from tinyir.ir.pipeline import STAGES
    from tinyir.lower import cu, gpu, lower_to
    from tinyir.lower import plan as to_plan

    module: Any = read(case.text, "packed.json")
    for stage in STAGES[1 : STAGES.index("plan")]:
        module = lower_to(stage, module, "sm90", card_here())
    chosen = lower_to("plan", module, "sm90", card_here())
    found = [chosen]
    if variants and len(module.program.regions) == 1:
        every = to_plan.candidates(module, module.program.regions[0], "sm90", card_here())
        fitting = [c.plan for c in every if c.cost and c.rejected in ("", to_plan.CROWDED)]
        found += [plan.Module(module, (p,)) for p in fitting[:variants]]
    named = (
        "; ".join(f"{p.algo} {list(p.tile)} on {list(p.threads)} x{p.widest}, {p.stages} stages" for p in m.plans)
        for m in found
    )
    return [(name, manifest.show(cu.lower(gpu.lower(m)))) for name, m in zip(named, found)]


def prepared(given: tuple[Case, int]) -> list[tuple[str, str]]:
    """The texts of a case, compiled into the cache."""
    from tinyir.runtime.compile import cubins_of

    found = texts_of(*given)
    for _, text in found:
        cubins_of(text, "sm_90a", jobs=1)
    return found


def packed(case: Case) -> tuple[dict[str, Any], Any]:
    """Random weights as the case packs them, with their scales, and as [columns, depth] in fp16."""
    import torch

    def bytes_of(*shape: int) -> Any:
        return torch.randint(0, 256, shape, device="cuda", dtype=torch.uint8)

    depth, columns, blocks = case.depth, case.columns, case.depth // BLOCK
    scales = torch.rand(columns, blocks, device="cuda", dtype=torch.float16) * 0.1
    if not case.layout:
        q = bytes_of(columns, depth * case.bits // 8)
        number = q if case.bits == 8 else torch.stack((q & 15, q >> 4), 2).flatten(1)
        weights = (number.float() - (1 << case.bits - 1)) * scales.float().repeat_interleave(BLOCK, 1)
        return {"Q": q, "S": scales}, weights.half()
    is_awq = case.layout == "awq"
    words = {"Q": (depth, columns // EACH) if is_awq else (depth // EACH, columns), "Z": (blocks, columns // EACH)}
    given = {name: bytes_of(shape[0], 4 * shape[1]).view(torch.int32) for name, shape in words.items()}
    order = [0, 4, 1, 5, 2, 6, 3, 7] if is_awq else list(range(EACH))
    shifts = torch.tensor(order, device="cuda", dtype=torch.int32) * 4
    zeros = (given["Z"][:, :, None] >> shifts & 15).flatten(1)
    q = given["Q"]
    number = (q[:, :, None] >> shifts & 15).flatten(1) if is_awq else (q[:, None] >> shifts[:, None] & 15).flatten(0, 1)
    weights = (number - zeros.repeat_interleave(BLOCK, 0)).half() * scales.t().repeat_interleave(BLOCK, 0)
    return {**given, "S": scales.t().contiguous()}, weights.t().contiguous()


def measure_case(device: Any, case: Case, texts: list[tuple[str, str]]) -> dict[str, Any]:
    """One row: the error, and all times."""
    import torch

    from tests.bench.gemm import on_stream, timed
    from tinyir.ir import manifest
    from tinyir.runtime.device import Buffer
    from tinyir.runtime.graph import Graph
    from tinyir.runtime.program import Program

    torch.manual_seed(case.rows)
    half = {"device": "cuda", "dtype": torch.float16}
    x = {
        "A": torch.randn(case.rows, case.depth, **half),
        "Y": torch.full((case.rows, case.columns), torch.nan, **half),
    }
    given, weights = packed(case)
    x |= given
    wanted = x["A"].double() @ weights.double().t()
    kept = {n: Buffer(n, t.data_ptr(), t.numel(), t.element_size(), 0) for n, t in x.items()}
    programs = [Program(device, text, manifest.parse(text), {}, kept=kept) for _, text in texts]
    torch.cuda.synchronize()
    errors = []
    for program in programs:
        x["Y"].fill_(torch.nan)
        torch.cuda.synchronize()
        program.run()
        device.stream.synchronize()
        errors.append(float((x["Y"].double() - wanted).abs().max() / wanted.abs().max()))
    out, flat = torch.empty_like(x["Y"]), torch.empty(case.bytes, device="cuda", dtype=torch.uint8)
    rival = on_stream(device, lambda: torch.mm(x["A"], weights.t(), out=out))
    copy = on_stream(device, lambda: flat[: case.bytes // 2].copy_(flat[case.bytes // 2 : case.bytes // 2 * 2]))
    for run in (rival, copy):
        run()
    device.stream.synchronize()
    graphs = [Graph(device.stream.handle, run) for run in (*(p.enqueue for p in programs), rival)]
    times = timed(device, [*(graph.run for graph in graphs), copy], RUNS)
    for graph in graphs:
        graph.__exit__(None, None, None)
    ours, (cublas, copied) = times[: len(programs)], times[len(programs) :]
    return {
        "case": case.name,
        "bytes": case.bytes,
        "plan": texts[0][0],
        "error": errors[0],
        "fault": "" if errors[0] <= NEAR else f"off by {errors[0]:.3e} of the largest number",
        "us": ours[0],
        "cublas_us": cublas,
        "copy_us": copied,
        "ratio": cublas / ours[0],
        "share": copied / ours[0],
        "variants": sorted((us, name, error) for us, (name, _), error in zip(ours[1:], texts[1:], errors[1:])),
    }


def main() -> int:
    """Emit, or measure; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--emit", type=Path)
    parser.add_argument("--variants", type=int, default=0, help="other plans to time of each case")
    parser.add_argument("--only", default="", help="cases whose name has this")
    parser.add_argument("--out", type=Path, default=Path("packed.json"))
    args = parser.parse_args()
    chosen = [case for case in cases() if args.only in case.name]
    if args.emit:
        args.emit.mkdir(parents=True, exist_ok=True)
        for case in chosen:
            (args.emit / f"{case.name}.cu").write_text(texts_of(case)[0][1], encoding="utf-8")
            print(case.name, flush=True)
        return 0
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        texts = list(pool.map(prepared, [(case, args.variants) for case in chosen]))
    import torch

    from tinyir.runtime.cuda import CudaDevice

    torch.cuda.init()
    device = CudaDevice()
    rows: list[dict[str, Any]] = []
    try:
        for case, found in zip(chosen, texts):
            rows.append(row := measure_case(device, case, found))
            print(
                f"| {case.name} | {row['us']:.1f} us, {row['share']:.0%} of a copy | cuBLAS {row['cublas_us']:.1f}, "
                f"{row['ratio']:.2f}x | {row['plan']} {row['fault']}",
                flush=True,
            )
            for us, name, error in row["variants"]:
                print(f"    {us:.1f} us {name} {error:.1e}", flush=True)
            args.out.write_text(json.dumps({**versions_here(), "rows": rows}, indent=1) + "\n", encoding="utf-8")
    finally:
        device.release()
    return 1 if any(row["fault"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
