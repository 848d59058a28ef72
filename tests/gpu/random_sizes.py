"""The sample at random sizes through the executables: the pipe to CUDA text once, then tiny-run on arrays of ten random
(M, N, K).

    python tests/gpu/random_sizes.py [--device cuda|sim|cpu] [--count 10] [--most 300] [--seed 1]

Sizes are 1..most, tails included; each result is compared with fp64 NumPy (rtol = atol = 1e-3). Prints a line a case;
exit code 1 when one fails.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "samples" / "gemm_bias_relu" / "gemm_bias_relu.json"
PIPE = " | ".join(f"bin/tiny-{name}" for name in ("front", "index", "poly", "region", "plan", "gpu", "cu"))


def main() -> int:
    """Run all cases; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--most", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    draw = np.random.default_rng(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "k.cu"
        with open(SAMPLE, encoding="utf-8") as model:
            text.write_bytes(
                subprocess.run(
                    ["bash", "-o", "pipefail", "-c", PIPE], stdin=model, stdout=subprocess.PIPE, check=True, cwd=ROOT
                ).stdout
            )
        failed = sum(not _is_right(text, Path(folder), args.device, draw, args.most) for _ in range(args.count))
    print(f"{args.count - failed} passed, {failed} failed")
    return 1 if failed else 0


def _is_right(text: Path, folder: Path, device: str, draw: np.random.Generator, most: int) -> bool:
    m, n, k = (int(size) for size in draw.integers(1, most + 1, 3))
    arrays = {
        name: draw.standard_normal(shape).astype(np.float16)
        for name, shape in (("A", (m, k)), ("B", (k, n)), ("bias", (n,)))
    }
    np.savez(folder / "in.npz", **arrays)
    command = [
        str(ROOT / "bin" / "tiny-run"),
        str(text),
        "--inputs",
        str(folder / "in.npz"),
        "--out",
        str(folder / "out.npz"),
        f"--device={device}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"M={m} N={n} K={k}: exit {done.returncode}\n{done.stderr}", file=sys.stderr)
        return False
    with np.load(folder / "out.npz") as found:
        got = found["C2"].astype(np.float64)
    a, b, bias = (arrays[name].astype(np.float64) for name in ("A", "B", "bias"))
    wanted = np.maximum(a @ b + bias, 0)
    is_right = got.shape == wanted.shape and bool(np.allclose(got, wanted, rtol=1e-3, atol=1e-3))
    print(
        f"M={m:<4} N={n:<4} K={k:<4} largest difference {np.max(np.abs(got - wanted)):.2e}  "
        f"{'right' if is_right else 'WRONG'}"
    )
    return is_right


if __name__ == "__main__":
    sys.exit(main())
