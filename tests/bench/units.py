"""What compiling costs in units: the pipe of seven filters, one kernel in a warm process, networks, ONNX files.

    python tests/bench/units.py [--runs 5] [--networks] [MODEL.onnx ...]

A unit is the processor time of `s = 0; for i in range(10**7): s += i*i` in Python on this machine, so that figures of
two machines can be compared. It is measured between the runs, since a machine with other work is slower in both.
Medians of the runs, processes of their own with all caches empty but the grammar tables and Python's bytecode, which
is made first, whatever the environment says of it; "changed": one number of the model is another, in the same process.
Needs no GPU.
"""

from __future__ import annotations

import argparse
import compileall
import gc
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.models import bert, gpt2, mlp, resnet50, vit  # noqa: E402
from tinyir import front  # noqa: E402
from tinyir.ir.pipeline import FILTERS, STAGES  # noqa: E402
from tinyir.lower import language_of, lower_to  # noqa: E402

SAMPLES = ROOT / "samples"
WARM = {  # sample, sizes of its symbols, and others
    "one GEMM": ("gemm_bias_relu", {"M": 1024, "N": 768, "K": 512}, {"M": 1152, "N": 640, "K": 576}),
    "one 3x3 convolution": ("conv3x3_silu", {"N": 8}, {"N": 12}),
    "one attention": ("attention_causal", {"B": 1, "S": 1024}, {"B": 2, "S": 1280}),
}
NETWORKS = {
    "ResNet-50 fp16": lambda: resnet50(dtype="fp16"),
    "ResNet-50 fp16, batch 32": lambda: resnet50(32, dtype="fp16"),
    "BERT-base fp16": lambda: bert(dtype="fp16"),
    "GPT-2 fp16, 1024 tokens": lambda: gpt2(tokens=1024, dtype="fp16"),
    "GPT-2 fp16, 48 layers": lambda: gpt2(tokens=1024, layers=48, dtype="fp16"),
    "ViT-B fp16, batch 32": lambda: vit(32, layers=12, dtype="fp16"),
    "MLP of 100 layers, 20 shapes": lambda: mlp(100),
    "MLP of 1,000 layers, 20 shapes": lambda: mlp(1000),
}


def unit() -> float:
    """Seconds of a unit, now."""
    start = time.process_time()
    exec("s = 0\nfor i in range(10**7): s += i*i", {})  # at module level, where names are looked up
    return time.process_time() - start


def in_units(work: Callable[[], float], runs: int) -> tuple[float, float]:
    """The median of the units that `work` says it took, and that of a unit's seconds."""
    found, seconds = [], []
    for _ in range(runs):
        before = unit()
        taken = work()
        seconds.append((before + unit()) / 2)
        found.append(taken / seconds[-1])
    return statistics.median(found), statistics.median(seconds)


def children() -> float:
    """Seconds of the processor, of all child processes so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def in_a_shell(line: str, tables: Path) -> float:
    """Seconds of the processor that a line takes, its cache empty but for the grammar tables."""
    with tempfile.TemporaryDirectory() as cache:
        kept = sorted(tables.rglob("reader-*"))
        assert kept, "no grammar tables in the cache"
        for table in kept:
            place = Path(cache) / "tinyir" / table.relative_to(tables)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(table, place)
        environment = {**os.environ, "PATH": f"{ROOT / 'bin'}:{os.environ['PATH']}", "XDG_CACHE_HOME": cache}
        before = children()
        subprocess.run(["sh", "-c", line], env=environment, stdout=subprocess.DEVNULL, check=True)
        return children() - before


def pipe_of(sample: str) -> str:
    """The seven filters on a sample."""
    names = [name for name, _, _ in FILTERS[:-1]]
    return " | ".join([f"{names[0]} {SAMPLES / sample / sample}.json", *names[1:]])


def compiled(text: str) -> str:
    """Front-end JSON as CUDA, every stage checked."""
    module = front.read(text)
    for stage in STAGES[1:]:
        module = lower_to(stage, module, "sm90")
        faults = [d for d in language_of(stage).check(module) if d.is_error]
        assert faults == [], faults
    return language_of("cu").show(module)


def with_sizes(text: str, sizes: dict[str, int]) -> str:
    """The model at these sizes."""
    text = re.sub(r',\s*"shape_sets": \{.*?\}\s*\}', "", text, flags=re.S)
    for name, size in sizes.items():
        text = re.sub(rf'(?<=[\[, ])"{name}"(?=[,\]])', str(size), text)
    return text


def warm(sample: str, first: dict[str, int], then: dict[str, int]) -> float:
    """Seconds for the second of two models that differ in their sizes, in a process that has compiled the first;
    without the collector of cycles, as `tinyir.compile` and the filters are."""
    gc.disable()
    text = (SAMPLES / sample / f"{sample}.json").read_text(encoding="utf-8")
    compiled(with_sizes(text, first))
    start = time.process_time()
    compiled(with_sizes(text, then))
    return time.process_time() - start


def apart(work: Callable[[], float]) -> float:
    """What `work` says, in a process of its own."""
    back, forth = os.pipe()
    child = os.fork()
    if not child:
        os.write(forth, repr(work()).encode())
        os._exit(0)
    os.close(forth)
    with os.fdopen(back) as said:
        found = said.read()
    os.waitpid(child, 0)
    return float(found)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="of which the median is taken (default: 5)")
    parser.add_argument("--networks", action="store_true", help="also ResNet-50, BERT, GPT-2 and ViT")
    parser.add_argument("models", nargs="*", metavar="MODEL", help="also these models, by tinyc")
    args = parser.parse_args()
    tables = Path(tempfile.mkdtemp())
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else a process would compile the modules that it imports
    compileall.compile_dir(ROOT / "tinyir", quiet=1)
    environment = {**os.environ, "PATH": f"{ROOT / 'bin'}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(tables)}
    subprocess.run(  # makes the grammar tables
        ["sh", "-c", pipe_of("gemm_bias_relu")], env=environment, stdout=subprocess.DEVNULL, check=True
    )
    kept = tables / "tinyir"

    def say(name: str, work: Callable[[], float]) -> None:
        units, seconds = in_units(work, args.runs)
        print(f"{name:<40} {units:>6.2f} units   a unit {seconds:.2f} s", flush=True)

    say("the pipe on gemm_bias_relu", lambda: in_a_shell(pipe_of("gemm_bias_relu"), kept))
    for name, (sample, first, then) in WARM.items():
        say(f"{name}, warm, sizes changed", lambda: apart(lambda: warm(sample, first, then)))  # noqa: B023
    with tempfile.TemporaryDirectory() as folder:
        for name, model in NETWORKS.items() if args.networks else ():
            file = Path(folder) / "model.json"
            file.write_text(model().text, encoding="utf-8")
            say(name, lambda: in_a_shell(f"tinyc '{file}'", kept))  # noqa: B023
    for file in args.models:
        say(Path(file).stem, lambda: in_a_shell(f"tinyc '{file}'", kept))  # noqa: B023
    shutil.rmtree(tables)


if __name__ == "__main__":
    main()
