"""Every family of kernels under compute-sanitizer: `python tests/gpu/sanitize.py [--tool memcheck] [FAMILY ...]`.

Needs a GPU, PyCUDA, compute-sanitizer and nvcc. Each family of `tests/unit/families.py`, samples among them, runs at
small sizes with tails, its results checked against playback, once a tool (memcheck, racecheck, synccheck, initcheck);
`--jobs` runs are side by side. A line a run, and a count at the end; exit code 1 when a tool reports anything or a
result is wrong.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.unit.families import FAMILIES, family  # noqa: E402

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
FAULTY = 3  # what a tool that has found something makes of the exit code
SECONDS = 300  # for one run
# What initcheck may report: this one reads the aligned 16 bytes in which an element is, the last of which may be behind
# the tensor's end; it shifts them out.
OF_WHOLE_WORDS = "copy_16"


def main() -> int:
    """Run the chosen families under the chosen tools; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="FAMILY", help="all of them without one")
    parser.add_argument("--tool", action="append", choices=TOOLS, help="may be repeated; all of them without one")
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side")
    parser.add_argument("--run", metavar="FAMILY", help="run one family on the GPU and check it: what the tools watch")
    args = parser.parse_args()
    if args.run:
        return run_family(args.run)
    unknown = sorted(set(args.names) - set(FAMILIES))
    if unknown:
        parser.error(f"there is no family {', '.join(unknown)}; known: {', '.join(FAMILIES)}")
    sanitizer = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if sanitizer is None:
        sys.exit("compute-sanitizer is neither on PATH nor in /usr/local/cuda/bin")
    runs = [(tool, name) for tool in args.tool or TOOLS for name in args.names or FAMILIES]
    clean, faulty = Counter[str](), 0
    with ThreadPoolExecutor(args.jobs) as pool:
        for done in as_completed([pool.submit(faults_of, sanitizer, *run) for run in runs]):
            tool, said, is_clean = done.result()
            print(said, flush=True)
            clean[tool] += is_clean
            faulty += not is_clean
    print(", ".join(f"{tool} {number} clean" for tool, number in clean.items()) + f"; {faulty} not")
    return int(faulty > 0)


def run_family(name: str) -> int:
    """The family on the GPU, each of its inputs."""
    from tinyir.runtime.run import run

    one = family(name)
    for arrays in one.inputs:
        run(one.text, arrays, device="cuda", check=True, rtol=max(one.tolerance, 2e-3), atol=max(one.tolerance, 2e-3))
    return 0


def faults_of(sanitizer: str, tool: str, name: str) -> tuple[str, str, bool]:
    """The tool, a line on the run, with what was said where the tool or the comparison reports anything, and whether
    neither does."""
    quiet = ["--report-api-errors", "no"] if tool == "memcheck" else []  # the driver asks for what it need not have
    command = [sanitizer, "--tool", tool, "--error-exitcode", str(FAULTY), *quiet]
    command += [sys.executable, __file__, "--run", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return tool, f"{tool:<10} {name:<24} not done after {SECONDS} s", False
    said = done.stdout + done.stderr
    summary = next((line.strip("= ") for line in said.splitlines() if "SUMMARY" in line), "no summary")
    places = re.findall(r"Uninitialized .*\n=+ +at (\w+)", said)
    is_known = tool == "initcheck" and bool(places) and set(places) == {OF_WHOLE_WORDS} and "error[" not in said
    is_clean = done.returncode == 0 or is_known and done.returncode == FAULTY
    word = "clean" if is_clean else f"exit {done.returncode}"
    note = f"  all in {OF_WHOLE_WORDS}" if is_clean and is_known else ""
    lines = [f"{tool:<10} {name:<24} {word}  {summary}{note}", *(() if is_clean else said.splitlines()[:40])]
    return tool, "\n".join(lines), is_clean


if __name__ == "__main__":
    sys.exit(main())
