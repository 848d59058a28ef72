"""tiny-view: a program at every stage as one page that needs no network: its graph, regions and what they fused,
memory, plan with roofline, and the texts side by side with linked names."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..ir.pipeline import STAGES
from ..kit.cli import Session, parser_of, run
from ..kit.diag import Diag, refuse
from ..kit.phrase import Phrase, why_of
from . import tiny_plan, tiny_region
from .chain import chain
from .source import must_hold, read_source, shape_option
from .stage import language_of, stage_of


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    made = parser_of(
        "tiny-view",
        "A program at every stage as one page that needs no network: graph, regions, memory, plan, linked texts.",
        None,
        examples=(
            ("tiny-view model.json -o view.html", "a model, and what every stage makes of it"),
            ("tiny-view m.tiny m.region m.plan k.cu -o view.html", "texts as they are, such as an edited plan"),
        ),
    )
    made.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="a model or a text of a stage, from which the others are made; or texts",
    )
    made.add_argument("--json", action="store_true", help="print the data of the page instead, as JSON")
    made.add_argument(
        "--measured",
        metavar="FILE",
        help="times of launches, as `tiny-run --timeline FILE` writes them, for the plan view",
    )
    shape_option(made)
    tiny_region.options(made)
    tiny_plan.options(made)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Read a model or texts, print a page; the exit code."""
    return run("tiny-view", parser().parse_args(argv), _body)


def _body(session: Session) -> None:
    from ..target.device import get_device
    from ..view.collect import Journey, collected
    from ..view.page import page_of

    args = session.args
    source, modules = _read(session)
    measured = _measured(args.measured) if args.measured else {}
    texts = {stage: session.timed("show", lambda: language_of(stage).show(m)) for stage, m in modules.items()}  # noqa: B023
    verdicts = session.timed("verdicts", lambda: _verdicts(modules))
    passes = session.timed("passes", lambda: [*_passes(modules.get("tiny")), *_rewrites(modules.get("poly"))])
    card = get_device(args.device or {"sm80": "a100", "sm90": "h100"}[args.arch])
    data = session.timed(
        "view", lambda: collected(Journey(source, texts, modules, verdicts, passes, measured), card, args.lang)
    )
    session.write(json.dumps(data, ensure_ascii=False, indent=1) + "\n" if args.json else page_of(data))


def _read(session: Session) -> tuple[str, dict[str, Any]]:
    """The model's text, where there is one, and the modules by stage: of one file all that follow from it, of several
    what they are. Raises Refused (E0017 two files of one stage)."""
    files, source, modules = session.args.files, "", {}
    for file in files:
        session.args.file = file
        text = read_source(session, Phrase("a model, or text of any stage"))
        stage = stage_of(text)
        if len(files) == 1:
            for name, module in chain(session, text, STAGES[-1]):
                source, modules = (module, modules) if name == "json" else (source, {**modules, name: module})
            return source, modules
        if (stage if stage in STAGES else "json") in (*modules, *(["json"] if source else [])):
            raise refuse("E0017", file, file=file, stage=stage or "json")
        if stage not in STAGES:
            from .. import front

            source, stage, module = text, "tiny", front.read(text, file, session.notes)
        else:
            module = language_of(stage).parse(text)
        must_hold(session, language_of(stage).check(module))
        modules.setdefault(stage, module)
    return source, {stage: modules[stage] for stage in STAGES if stage in modules}


def _verdicts(modules: dict[str, Any]) -> list[Diag]:
    """What was fused and what not, of a poly text."""
    from ..lower import lowering_of

    return (
        [d for d in lowering_of("region").verdicts(modules["poly"]) if d.code in ("R3401", "R3402")]
        if "poly" in modules
        else []
    )


def _passes(module: Any) -> Any:
    """The text before and after each pass of the canonical form, but of those that change nothing."""
    if module is None:
        return
    from ..ir import tiny
    from ..lower.tiny import CANONICAL

    before = tiny.show(module)
    for rewrite in CANONICAL:
        module = rewrite(module)
        after = tiny.show(module)
        if after != before:
            yield f"{rewrite.__name__} (tiny-opt --canonical)", before, after
        before = after


def _rewrites(module: Any) -> Any:
    """Each region before and after a rewrite of the region stage that changes it."""
    if module is None:
        return
    from ..ir.region import show_region
    from ..lower import lowering_of

    for name, before, after in lowering_of("region").steps(module):
        yield f"{name}: region {after.name}", show_region(before), show_region(after)


def _measured(file: str) -> dict[str, float]:
    """Microseconds by launch, of a Chrome trace. Raises Refused (E0008 unreadable, E0011 no JSON)."""
    try:
        events = json.loads(Path(file).read_text(encoding="utf-8"))["traceEvents"]
        return {e["name"]: float(e["dur"]) for e in events if e.get("cat") == "launch"}
    except OSError as fault:
        raise refuse("E0008", at=file, file=file, reason=why_of(fault)) from None
    except (ValueError, KeyError, TypeError):
        raise refuse("E0008", at=file, file=file, reason=Phrase("it holds no trace")) from None
