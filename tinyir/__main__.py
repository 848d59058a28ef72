"""`python -m tinyir COMMAND ...`: what the shims in bin/ call. Without a command it lists them."""

from __future__ import annotations

import gc
import sys

from .cmd import COMMANDS, command_of


def main() -> int:
    """Run the command that the first argument names, or list them; the exit code."""
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print("usage: python -m tinyir COMMAND ...\n\n" + listed())
        return 0
    if sys.argv[1] not in COMMANDS:
        from .kit.options import nearest

        near = nearest(sys.argv[1], COMMANDS)
        hint = f"; did you mean {near}?" if near else f"; there are {', '.join(COMMANDS)}"
        print(f"python -m tinyir: there is no command {sys.argv[1]}{hint}", file=sys.stderr)
        return 2
    gc.disable()  # what is imported stays: `kit.cli` says why it is off for the rest too
    try:
        return command_of(sys.argv[1]).main(sys.argv[2:])
    except KeyboardInterrupt:  # while modules are imported; `kit.cli` says the same from then on
        return 130


def listed() -> str:
    """A line for each command, in the order of the pipeline."""
    from .kit.options import helped, locale

    return "".join(f"{name:<14}{helped(command_of(name).parser().description, locale())}\n" for name in COMMANDS)


if __name__ == "__main__":
    sys.exit(main())
