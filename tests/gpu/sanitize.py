"""Every family of kernels under compute-sanitizer: `python tests/gpu/sanitize.py [--tool memcheck] [FAMILY ...]`.

Needs a GPU, PyCUDA, compute-sanitizer and nvcc. Each family of `tests/unit/families.py`, samples among them, runs at
small sizes with tails, its results checked against playback, once a tool (memcheck, racecheck, synccheck). A line a
run; exit code 1 when a tool reports anything or a result is wrong.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.unit.families import FAMILIES, family  # noqa: E402

TOOLS = ("memcheck", "racecheck", "synccheck")
FAULTY = 3  # what a tool that has found something makes of the exit code


def main() -> int:
    """Run the chosen families under the chosen tools; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="FAMILY", help="all of them without one")
    parser.add_argument("--tool", action="append", choices=TOOLS, help="may be repeated; all of them without one")
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
    return int(
        sum([is_faulty(sanitizer, tool, name) for tool in args.tool or TOOLS for name in args.names or FAMILIES]) > 0
    )


def run_family(name: str) -> int:
    """The family on the GPU, each of its inputs."""
    from tinyir.runtime.run import run

    one = family(name)
    for arrays in one.inputs:
        run(one.text, arrays, device="cuda", check=True, rtol=max(one.tolerance, 2e-3), atol=max(one.tolerance, 2e-3))
    return 0


def is_faulty(sanitizer: str, tool: str, name: str) -> bool:
    """Whether the tool or the comparison reports anything; prints a line, and what was said where it does."""
    quiet = ["--report-api-errors", "no"] if tool == "memcheck" else []  # the driver asks for what it need not have
    command = [
        sanitizer,
        "--tool",
        tool,
        "--error-exitcode",
        str(FAULTY),
        *quiet,
        sys.executable,
        __file__,
        "--run",
        name,
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    said = done.stdout + done.stderr
    summary = next((line.strip("= ") for line in said.splitlines() if "SUMMARY" in line), "no summary")
    print(
        f"{tool:<10} {name:<24} {'clean' if done.returncode == 0 else f'exit {done.returncode}'}  {summary}", flush=True
    )
    if done.returncode:
        print("\n".join(said.splitlines()[:40]))
    return done.returncode != 0


if __name__ == "__main__":
    sys.exit(main())
