"""Every sample's committed CUDA under compute-sanitizer: `python tests/gpu/sanitize.py [--tool memcheck] [SAMPLE ...]`.

Needs a GPU, PyCUDA, compute-sanitizer and nvcc. Each sample runs at small sizes with tails, its result checked against playback, once a tool
(memcheck, racecheck, synccheck). A line a run; exit code 1 when a tool reports anything or a result is wrong.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.unit.test_samples_run import SAMPLES, arrays_of  # noqa: E402

TOOLS = ("memcheck", "racecheck", "synccheck")


def main() -> int:
    """Run the chosen samples under the chosen tools; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="SAMPLE", help="all of them without one")
    parser.add_argument("--tool", action="append", choices=TOOLS, help="may be repeated; all of them without one")
    parser.add_argument("--run", metavar="FILE", help="run one text on the GPU and check it: what the tools watch")
    args = parser.parse_args()
    if args.run:
        return _run(Path(args.run))
    sanitizer = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if sanitizer is None:
        sys.exit("compute-sanitizer is neither on PATH nor in /usr/local/cuda/bin")
    chosen = [s for s in SAMPLES if not args.names or s.stem in args.names]
    return int(sum(_is_faulty(sanitizer, tool, sample) for tool in args.tool or TOOLS for sample in chosen) > 0)


def _run(path: Path) -> int:
    from tinyir.runtime.run import run

    text = path.read_text(encoding="utf-8")
    run(text, arrays_of(text), device="cuda", check=True, rtol=2e-3)
    return 0


def _is_faulty(sanitizer: str, tool: str, sample: Path) -> bool:
    command = [sanitizer, "--tool", tool, "--error-exitcode", "3", *(["--report-api-errors", "no"] if tool == "memcheck" else []), sys.executable, __file__, "--run", str(sample)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    said = done.stdout + done.stderr
    summary = next((line.strip("= ") for line in said.splitlines() if "SUMMARY" in line), "no summary")
    print(f"{tool:<10} {sample.stem:<18} {'clean' if done.returncode == 0 else f'exit {done.returncode}'}  {summary}", flush=True)
    if done.returncode:
        print("\n".join(said.splitlines()[:12]))
    return done.returncode != 0


if __name__ == "__main__":
    sys.exit(main())
