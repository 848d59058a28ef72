"""What the commands of the pipeline share: reading a text of a stage, with the hint which filter is missing in
between."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from typing import Any

from ..ir.pipeline import FILTERS, STAGES, filters_between
from ..kit.cli import Notes, Session, filter_main, parser_of
from ..kit.diag import refuse
from ..kit.held import is_marked
from ..kit.phrase import Phrase
from ..kit.span import span_of
from ..kit.text import read_stage
from ..lower import language_of, lowering_of

MODELS = ("json", "nodeid", "coreir", "dsl", "onnx", "pt2")  # what tiny-front reads, beside tiny text


def stage_parser(name: str, summary: str, example: tuple[str, str]) -> ArgumentParser:
    """The options of a filter of the pipeline. Its examples are one in a pipe, and one of its own."""
    reads, writes = _ends_of(name)
    before = next((n for n, _, w in FILTERS if w == reads), None)
    piped = f"{before} m.{next(r for n, r, _ in FILTERS if n == before)} | {name} > m.{writes}"
    return parser_of(
        name, summary, f"{reads} text", examples=((piped, "as a filter, after the one before it"), example)
    )


def _ends_of(name: str) -> tuple[str, str]:
    return next((r, w) for n, r, w in FILTERS if n == name)


def stage_filter(
    argv: Sequence[str] | None,
    parser: ArgumentParser,
    chosen: Callable[[Namespace], dict[str, Any]] = lambda args: {},
) -> int:
    """A filter of the pipeline with its options; the exit code. `chosen` makes keywords of the lowering of them."""
    name = parser.prog
    reads, writes = _ends_of(name)
    return filter_main(
        parser.parse_args(argv),
        name,
        read=lambda session: read_module(session, reads),
        target=lambda: language_of(writes),
        lower=lambda module, args, notes: lowered(writes, module, notes, bool(args.remarks), chosen(args)),
    )


def lowered(stage: str, module: Any, notes: Notes, has_remarks: bool, chosen: dict[str, Any]) -> Any:
    """The module of `stage`. What its lowering warns of goes to `notes`, and when remarks are wanted what it remarks on
    what it did and did not."""
    lowering = lowering_of(stage)
    result = lowering.lower(module, **chosen)
    if hasattr(lowering, "warnings"):
        notes += lowering.warnings(module, **chosen)
    if has_remarks and hasattr(lowering, "remarks"):
        notes += lowering.remarks(result)
    if has_remarks and hasattr(lowering, "verdicts"):
        notes += lowering.verdicts(module, **chosen)
    return result


def read_module(session: Session, stage: str) -> Any:
    """The checked and validated module of the input, which must be text of `stage`; what a filter has just checked and
    printed is not checked again. Raises Refused (E0003, E0004 and what parse, check and validate find)."""
    writer = next(name for name, _, writes in FILTERS if writes == stage)
    text = read_text(session, Phrase("{stage} text, as {writer} prints it", stage=stage, writer=writer), stage)
    must_be(text, stage)
    language = language_of(stage)
    module = session.timed("parse", lambda: language.parse(text))
    if session.timed("held", lambda: is_marked(text)):
        return module
    session.must_hold(session.timed(f"check {stage}", lambda: language.check(module)))
    session.must_hold(session.timed(f"validate {stage}", lambda: language.validate(module)))
    return module


def read_text(session: Session, wants: Phrase, stage: str) -> str:
    """The input as text, which should be of `stage`. Raises Refused (E0004 a model in bytes, and what `Session.decode`
    finds)."""
    from .. import front

    raw = session.read_bytes()
    model = "onnx" if front.is_onnx(raw) else "pt2" if front.is_pt2(raw) else ""
    if model:
        raise refuse("E0004", given=model, stage=stage, hint=_way_from(model, stage))
    return session.decode(raw, wants)


def must_be(text: str, stage: str) -> None:
    """Raise Refused (E0004) when the text is of another stage; its facts say what to put in the pipe."""
    given = stage_of(text) or _model_of(text)
    if given is None or given == stage:
        return
    first_line = text.split("\n", 1)[0]
    raise refuse(
        "E0004", span=span_of(text, 0, len(first_line)), given=given, stage=stage, hint=_way_from(given, stage)
    )


def _model_of(text: str) -> str | None:
    """The language of a model, which the first filter reads; None for another text, or tiny text."""
    from .. import front

    found = front.language_of(text)
    return found if found in MODELS else None


def _way_from(given: str, stage: str) -> Phrase:
    """What to do with a text of one stage, or a model, where another is read."""
    if given not in STAGES and given not in MODELS:
        return Phrase("there is no such stage; there are {stages}", stages=", ".join(STAGES))
    missing = filters_between(given, stage) if given in STAGES else ["tiny-front", *filters_between("tiny", stage)]
    if missing:
        return Phrase("put {missing} in between", missing=" | ".join(missing))
    return Phrase("this text is already past {stage}; feed it to {reader_of}", stage=stage, reader_of=_reader_of(given))


def stage_of(text: str) -> str | None:
    """The stage that the first line names (for a `.cu`: `cu`), or None."""
    found = read_stage(text.removeprefix("// "))
    return found[1] if found else None


def any_module(session: Session, wanted: str = "tiny") -> tuple[Any, Any]:
    """The language and the parsed module of an input of any stage; `wanted` is the first that the command has a use
    for. Raises Refused (E0003 no header, E0004 a model, or no such stage)."""
    text = read_text(session, Phrase("text of any stage"), wanted)
    stage = stage_of(text)
    if stage not in STAGES:
        must_be(text, wanted)
        first = text.split("\n", 1)[0][:60]
        raise refuse("E0003", stage=wanted, first=first, version="1.0", span=span_of(text, 0, len(first)))
    language = language_of(stage)
    return language, session.timed("parse", lambda: language.parse(text))


def _reader_of(stage: str) -> str:
    return next(name for name, reads, _ in FILTERS if reads == stage)
