"""Count the kernels of the networks: `python tests/models/counts.py [--play] [NAME ...]`.

Prints for each network its regions and kernels (regions joined by a deferred buffer are one), how many a layer adds,
the launches of its sm90 plan (siblings are one, a long sum of few tiles is two) and those that a layer adds, and the
seconds and MiB from JSON to region text in one process. With `--play` the region text is played too, at batch 1, and
compared with the playback of the tiny text.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.models import RandomModel, bert, gpt2, resnet50, vit  # noqa: E402
from tinyir.front.json import read  # noqa: E402
from tinyir.ir import region  # noqa: E402
from tinyir.lower import lower_to  # noqa: E402
from tinyir.play import region as play_region  # noqa: E402
from tinyir.play import tiny as play_tiny  # noqa: E402

WHOLE: dict[str, Callable[..., RandomModel]] = {"resnet50": resnet50, "bert": bert, "gpt2": gpt2, "vit": vit}
LAYERS = {"bert": 12, "gpt2": 12, "vit": 1}


def regions_of(tiny_module: Any) -> region.Module:
    """The region module of a tiny one."""
    module = tiny_module
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
    return module


def kernels_of(module: region.Module) -> int:
    """The regions, those joined by a deferred buffer counted once."""
    return len(module.program.regions) - sum(b.attr("materialize") == "deferred" for b in module.program.buffers)


def launches_of(module: region.Module) -> int:
    """The kernels of the plan: alternatives count once."""
    return len({one.regions for one in lower_to("plan", module, "sm90").plans})


def per_layer(name: str, count: Callable[[region.Module], int] = kernels_of, dtype: str = "fp32") -> int:
    """The kernels, or what else is counted, that one more layer of a network adds."""
    two, one = (count(regions_of(read(WHOLE[name](layers=layers, dtype=dtype).text))) for layers in (2, 1))
    return two - one


def difference(model: RandomModel) -> float:
    """The greatest difference between the playback of region and tiny text, against the greatest number of each
    output."""
    module, arrays = read(model.text), model.arrays()
    found, wanted = play_region.play(regions_of(module), arrays), play_tiny.play(module, arrays)
    return max(float(np.abs(found[n] - a).max() / np.abs(a).max()) for n, a in wanted.items())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(WHOLE)}; all of them without one")
    parser.add_argument(
        "--play", action="store_true", help="play the region text and compare it with the playback of the tiny text"
    )
    args = parser.parse_args()
    print(
        f"{'network':<10}{'regions':>9}{'kernels':>9}{'a layer':>9}{'launches':>10}{'a layer':>9}{'seconds':>9}{'MiB':>7}"  # noqa: E501
    )
    for name in args.names or WHOLE:
        text = WHOLE[name]().text
        start = time.process_time()
        module = regions_of(read(text))
        region.show(module)
        seconds = time.process_time() - start
        mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        layer, added = (per_layer(name), per_layer(name, launches_of)) if name in LAYERS else ("", "")
        print(
            f"{name:<10}{len(module.program.regions):>9}{kernels_of(module):>9}{layer:>9}{launches_of(module):>10}{added:>9}{seconds:>9.2f}{mib:>7.0f}",
            flush=True,
        )
        if args.play:
            start = time.process_time()
            print(
                f"{'':<10}region and tiny playback differ by {difference(WHOLE[name]()):.1e} of the greatest "
                f"number ({time.process_time() - start:.0f} s)",
                flush=True,
            )


if __name__ == "__main__":
    main()
