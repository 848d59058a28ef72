"""The chain of stages in one process, as `tinyc` and `tiny-view` walk it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..ir.pipeline import STAGES
from ..kit.cli import Session, must_be_faultless
from ..kit.diag import refuse
from ..kit.held import is_marked, mark
from ..kit.phrase import Phrase
from ..lower import CONFIRMED
from . import tiny_plan, tiny_region
from .source import must_hold
from .stage import language_of, lowered, stage_of


def chain(session: Session, text: str, last: str) -> Iterator[tuple[str, Any]]:
    """Each stage from the input's to `last` with its module, which is checked; a model is first, as `json` and its
    text. The options of the region and the plan stage are the session's."""
    stage = stage_of(text)
    if stage is None:
        from .. import front

        yield "json", text
        stage, module = "tiny", session.timed("front", lambda: front.read(text, session.file, session.notes))
    elif stage not in STAGES:
        raise refuse(
            "E0004",
            given=stage,
            stage="tiny",
            hint=Phrase("feed a model or text of a stage: {stages}", stages=", ".join(STAGES)),
        )
    else:
        given = stage
        module = session.timed("parse", lambda: language_of(given).parse(text))
    must_hold(session, session.timed(f"check {stage}", lambda: language_of(stage).check(module)))
    must_hold(session, session.timed(f"validate {stage}", lambda: language_of(stage).validate(module)))
    if STAGES.index(stage) > STAGES.index(last):
        raise refuse("E0004", given=stage, stage=last, hint=Phrase("this text is already past {last}", last=last))
    yield stage, module
    args = session.args
    keywords = {"region": tiny_region.chosen(args), "plan": tiny_plan.chosen(args)}
    goal = min(last, CONFIRMED[-1], key=STAGES.index)
    asked = f"{goal} {keywords['region']}\n{text}"
    is_confirmed = STAGES.index(stage) < STAGES.index(goal) and goal in CONFIRMED and is_marked(asked)
    for following in STAGES[STAGES.index(stage) + 1 : STAGES.index(last) + 1]:
        chosen, before = keywords.get(following, {}), module
        module = session.timed(
            following,
            lambda: lowered(following, module, session.notes, bool(args.remarks), chosen),  # noqa: B023
        )
        if following == "plan" and args.tuned:
            module = session.timed("tuned", lambda: tiny_plan.with_tuned(module, args, session.notes))  # noqa: B023
        found = session.timed(f"check {following}", lambda: language_of(following).check(module))  # noqa: B023
        must_be_faultless(found)
        if following in CONFIRMED and not is_confirmed:
            must_be_faultless(language_of(following).confirm(module, before))
            if following == goal:
                mark(asked)
        must_hold(session, found)  # the next filter of a pipe gives the warnings of what it reads
        yield following, module
