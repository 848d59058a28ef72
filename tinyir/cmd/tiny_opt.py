"""tiny-opt: any stage in, the same stage out. With no pass named it is a formatter; passes rewrite tiny text."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..kit.cli import Session, must_be_faultless, parser_of, run
from ..kit.diag import Diag, refuse
from ..kit.files import make_folder, write_whole
from ..kit.phrase import Phrase
from ..kit.span import span_of
from .stage import any_module


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    made = parser_of(
        "tiny-opt",
        "Text of any stage in canonical form; tiny text rewritten by the passes that are named.",
        "text of any stage",
        examples=(
            ("tiny-opt m.plan", "the text in canonical form"),
            ("tiny-opt --canonical --remarks m.tiny", "tiny text in its one form; say what each pass did"),
        ),
    )
    made.add_argument(
        "--canonical", action="store_true", help="run the passes that make tiny text canonical, in their order"
    )
    made.add_argument(
        "--pass",
        dest="named",
        metavar="PASS",
        action="append",
        default=[],
        help="run a pass, after --canonical if both are asked for; may be repeated",
    )
    made.add_argument("--stop-after", metavar="PASS", help="leave out what comes after this pass")
    made.add_argument(
        "--dump-dir", metavar="DIR", help="write the text after each pass here, numbered, as 02_compose_movement.tiny"
    )
    made.add_argument("--passes", action="store_true", help="list the passes and leave")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Read text of any stage, rewrite it if asked, print it in canonical form; the exit code."""
    options = parser()
    args = options.parse_args(argv)

    def body(session: Session) -> None:
        if args.passes:
            session.write(_listed())
            return
        steps = _steps(options, args)
        language, module = any_module(session)
        session.must_hold(language.check(module))
        if steps and language.STAGE != "tiny":
            first = session.text.split("\n", 1)[0]
            raise refuse(
                "E0004",
                span=span_of(session.text, 0, len(first)),
                given=language.STAGE,
                stage="tiny",
                hint=Phrase("passes rewrite tiny text; without one, tiny-opt is a formatter"),
            )
        session.write(language.show(_rewritten(session, language, module, steps)))

    return run("tiny-opt", args, body)


def _steps(options: argparse.ArgumentParser, args: argparse.Namespace) -> list[Any]:
    """The passes to run, in their order."""
    if not args.canonical and not args.named and not args.stop_after:
        return []
    from ..lower.tiny import CANONICAL, PASS_OF

    for word in [*args.named, *([args.stop_after] if args.stop_after else [])]:
        if word not in PASS_OF:
            options.error(f"argument --pass: {word!r} is not one of {', '.join(PASS_OF)}")
    steps = [*(CANONICAL if args.canonical or not args.named else ()), *(PASS_OF[word] for word in args.named)]
    if args.stop_after:
        last = PASS_OF[args.stop_after]
        if last not in steps:
            options.error(f"argument --stop-after: {args.stop_after} is not among the passes to run")
        steps = steps[: steps.index(last) + 1]
    return steps


def _rewritten(session: Session, language: Any, module: Any, steps: list[Any]) -> Any:
    """The module after every step, each checked; what each did is a remark."""
    folder = session.args.dump_dir
    if folder is not None:
        _dump(folder, "00_input", language.show(module))
    for number, rewrite in enumerate(steps, 1):
        name, before = rewrite.__name__, module
        module = session.timed(name, lambda: rewrite(before))  # noqa: B023
        must_be_faultless(language.check(module))
        if session.args.remarks:
            session.notes.append(
                Diag(
                    "R3001",
                    name,
                    _change(language.show(before), language.show(module), len(before.values), len(module.values)),
                )
            )
        if folder is not None:
            _dump(folder, f"{number:02}_{name}", language.show(module))
    return module


def _change(before: str, after: str, count: int, left: int) -> dict[str, Any]:
    lines = set(before.split("\n"))
    return {"lines": sum(line not in lines for line in after.split("\n")), "before": count, "after": left}


def _dump(folder: str, name: str, text: str) -> None:
    make_folder(Path(folder))
    write_whole(Path(folder) / f"{name}.tiny", text.encode("utf-8"))


def _listed() -> str:
    from ..lower.tiny import CANONICAL, PASSES, transition_of

    return "".join(f"{'canonical' if p in CANONICAL else '':<10} {p.__name__:<17} {transition_of(p)}\n" for p in PASSES)
