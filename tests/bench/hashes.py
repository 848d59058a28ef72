"""A hash of the plans and one of the CUDA for each case of the benches, to tell whether a commit changes what is made.

    python tests/bench/hashes.py > before.txt; git checkout ...; python tests/bench/hashes.py | diff before.txt -

The 40 shapes of `plans.py`, the products of `gemm.py`, and the small networks of tests/models in fp16 and fp32, each
for a card of either architecture. Needs no GPU.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.gemm import SHAPES  # noqa: E402
from tests.bench.plans import SAMPLE, shapes  # noqa: E402
from tests.models.small import SMALL  # noqa: E402
from tinyir import front  # noqa: E402
from tinyir.ir import manifest, plan  # noqa: E402
from tinyir.lower import lower_to  # noqa: E402
from tinyir.lower import plan as lower_plan  # noqa: E402
from tinyir.tune.program import at_sizes  # noqa: E402

CARDS = {"sm80": "a100", "sm90": "h200"}


def cases() -> Iterator[tuple[str, str, Any]]:
    """Name, architecture, and the module as regions."""
    sample = SAMPLE.read_text(encoding="utf-8")
    for arch in CARDS:
        module = regions(front.read(sample), arch)
        for sizes in (*shapes(40, 1), *({"M": m, "N": n, "K": k} for m, n, k, *_ in SHAPES)):
            yield f"gemm {' '.join(map(str, sizes.values()))}", arch, at_sizes(module, sizes)
        for name, build in SMALL.items():
            for dtype in ("fp16", "fp32"):
                yield f"{name} {dtype}", arch, regions(front.read(build(dtype=dtype).text), arch)


def regions(module: Any, arch: str) -> Any:
    """A tiny module as regions."""
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, arch)
    return module


def digest(text: str) -> str:
    """The first bytes of a text's hash."""
    return sha256(text.encode()).hexdigest()[:12]


if __name__ == "__main__":
    for name, arch, module in cases():
        planned = lower_plan.lower(module, arch=arch, device=CARDS[arch])
        cuda = lower_to("cu", lower_to("gpu", planned, arch), arch)
        print(f"{name:<40} {arch}  {digest(plan.show(planned))}  {digest(manifest.show(cuda))}", flush=True)
