"""`python -m tinyir COMMAND ...`: what the shims in bin/ call."""

from __future__ import annotations

import gc
import importlib
import sys

COMMANDS = (
    "tiny-import",
    "tiny-front",
    "tiny-index",
    "tiny-poly",
    "tiny-region",
    "tiny-plan",
    "tiny-tune",
    "tiny-gpu",
    "tiny-cu",
    "tiny-run",
    "tinyc",
    "tiny-opt",
    "tiny-check",
    "tiny-play",
    "tiny-explain",
)


def main() -> int:
    """Run the command that the first argument names; the exit code."""
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        print(f"usage: python -m tinyir COMMAND ...    COMMAND: {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    gc.disable()  # what is imported stays: `kit.cli` says why it is off for the rest too
    command = importlib.import_module(f"tinyir.cmd.{sys.argv[1].replace('-', '_')}")
    return command.main(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
