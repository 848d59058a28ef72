"""Every family of kernels under compute-sanitizer: `python tests/gpu/sanitize.py [--tool memcheck] [FAMILY ...]`.

Needs a GPU, PyCUDA, compute-sanitizer and nvcc. Each family of `tests/unit/families.py`, samples among them, runs at
small sizes with tails, its results checked against playback, once a tool (memcheck, racecheck, synccheck, initcheck).
All are compiled first; then `--together` families run in one process, as a tool takes seconds to start, and `--jobs`
processes are side by side. Families of a process with a report run again, each alone. A line for each process, and a
count at the end; exit code 1 when a tool reports anything or a result is wrong.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.unit.families import FAMILIES, family  # noqa: E402

TOOLS = ("racecheck", "memcheck", "initcheck", "synccheck")  # what takes longest comes first
FAULTY = 3  # what a tool that has found something makes of the exit code
SECONDS = 300  # for one process
# What initcheck may report: this one reads the aligned 16 bytes in which an element is, the last of which may be behind
# the tensor's end; it shifts them out.
OF_WHOLE_WORDS = "copy_16"


def main() -> int:
    """Run the chosen families under the chosen tools; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="FAMILY", help="all of them without one")
    parser.add_argument("--tool", action="append", choices=TOOLS, help="may be repeated; all of them without one")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--together", type=int, default=8, help="families of one process")
    parser.add_argument("--run", action="store_true", help="run them on the GPU and check them: what the tools watch")
    args = parser.parse_args()
    unknown = sorted(set(args.names) - set(FAMILIES))
    if unknown:
        parser.error(f"there is no family {', '.join(unknown)}; known: {', '.join(FAMILIES)}")
    names = args.names or list(FAMILIES)
    if args.run:
        return run_families(names)
    sanitizer = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if sanitizer is None:
        sys.exit("compute-sanitizer is neither on PATH nor in /usr/local/cuda/bin")
    with ProcessPoolExecutor(args.jobs) as pool:
        list(pool.map(compiled, names))
    count = -(-len(names) // args.together)
    runs = [(tool, names[n::count]) for tool in args.tool or TOOLS for n in range(count)]
    clean, faulty = Counter[str](), 0
    with ThreadPoolExecutor(args.jobs) as pool:
        for done in as_completed([pool.submit(faults_of, sanitizer, *run) for run in runs]):
            for tool, tried, said, is_clean in done.result():
                print(said, flush=True)
                clean[tool] += is_clean * tried
                faulty += (not is_clean) * tried
    print(", ".join(f"{tool} {number} clean" for tool, number in clean.items()) + f"; {faulty} not")
    return int(faulty > 0)


def compiled(name: str) -> None:
    """Compile a family for the first GPU, into the cache."""
    from tinyir.runtime.compile import cubins_of
    from tinyir.runtime.cuda import find_gpu, target_of

    found = find_gpu()
    if found is not None:
        cubins_of(family(name).text, target_of(found[1]), jobs=1)


def run_families(names: Sequence[str]) -> int:
    """Families on the GPU, each of their inputs."""
    from tinyir.runtime.run import run

    for one in map(family, names):
        rough = max(one.tolerance, 2e-3)
        for arrays in one.inputs:
            run(one.text, arrays, device="cuda", check=True, rtol=rough, atol=rough)
    return 0


def faults_of(sanitizer: str, tool: str, names: Sequence[str]) -> list[tuple[str, int, str, bool]]:
    """The tool, how many families, a line on the run, with what was said where the tool or the comparison reports
    anything, and whether neither does: of all together, or of each alone where one is not clean."""
    quiet = ["--report-api-errors", "no"] if tool == "memcheck" else []  # the driver asks for what it need not have
    command = [sanitizer, "--tool", tool, "--error-exitcode", str(FAULTY), *quiet]
    command += [sys.executable, __file__, "--run", *names]
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=SECONDS)
        code, said = done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        code, said = None, f"not done after {SECONDS} s"
    summary = next((line.strip("= ") for line in said.splitlines() if "SUMMARY" in line), "no summary")
    places = re.findall(r"Uninitialized .*\n=+ +at (\w+)", said)
    is_known = tool == "initcheck" and bool(places) and set(places) == {OF_WHOLE_WORDS} and "error[" not in said
    is_clean = code == 0 or is_known and code == FAULTY
    if not is_clean and len(names) > 1:
        return [one for name in names for one in faults_of(sanitizer, tool, [name])]
    word = "clean" if is_clean else f"exit {code}"
    note = f"  all in {OF_WHOLE_WORDS}" if is_clean and is_known else ""
    lines = [f"{tool:<10} {', '.join(names)}: {word}  {summary}{note}", *(() if is_clean else said.splitlines()[:40])]
    return [(tool, len(names), "\n".join(lines), is_clean)]


if __name__ == "__main__":
    sys.exit(main())
