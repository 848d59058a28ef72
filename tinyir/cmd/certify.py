"""Certificates on the command line: `tiny-check --certify` makes one, `tiny-check --verify` checks it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir import gpu
from ..kit.cli import Session
from ..kit.diag import refuse
from ..kit.phrase import Phrase
from ..lower import language_of, lower_to
from .playback import PROGRAMS
from .stage import must_be, read_text, stage_of

FAULTS = {
    "header": Phrase("it does not begin as a certificate does"),
    "text": Phrase("the text that it carries cannot be read"),
    "line": Phrase("a line of it cannot be read"),
    "digest": Phrase("the text that it carries is not the one that it names"),
    "missing": Phrase("an obligation of the text is missing"),
    "of nothing": Phrase("the text has no such obligation, or not so often"),
    "sum": Phrase("what it says of an obligation does not show it"),
    "counts": Phrase("it counts its obligations wrongly"),
    "other": Phrase("it is a certificate of another text"),
    "printed": Phrase("the text that it carries does not become this CUDA"),
}


def certify(session: Session, stage: str, module: Any) -> str:
    """The certificate of a gpu text, or of CUDA with the gpu text that it was printed from. Raises Refused (E0004
    another stage, E1484 CUDA that no gpu text is known to become)."""
    from ..certificate import Draft
    from ..verifier import Refused, Verifier

    text = language_of(stage).show(module)
    if stage not in ("gpu", "cu"):
        must_be(text, "gpu")
    kernels = module if stage == "gpu" else _gpu_of(session, module, text)
    cuda = text if stage == "cu" else _cuda_of(kernels)
    draft = session.timed("prove", lambda: Draft(kernels))
    try:
        verifier = Verifier(draft.show(cuda), is_draft=True)
        session.timed("verify", lambda: list(verifier.verdicts()))
    except Refused as fault:
        raise _refused("-", fault) from fault
    return draft.show(cuda, verifier.unconfirmed)


def verify(session: Session) -> str:
    """What a certificate shows of the input. Raises Refused (E1483 one that does not hold)."""
    from ..verifier import TRUSTED, Refused, Verifier

    source = _read(session, session.args.verify, Phrase("a certificate"))
    text = _text_of(session, Phrase("gpu text or CUDA"))
    try:
        checked = Verifier(source)
        if not checked.is_about(text if stage_of(text) != "gpu" else gpu.show(gpu.parse(text))):
            raise Refused("other", 0)
        verdicts = session.timed("verify", lambda: list(checked.verdicts()))
        if stage_of(text) == "cu" and _cuda_of(gpu.parse(checked.certificate.text)) != text:
            raise Refused("printed", 0)
    except Refused as fault:
        raise _refused(session.args.verify, fault) from fault
    lines = []
    for one in verdicts:
        counts = ", ".join(f"{one.counts[status]} {status}" for status in ("proven", "guarded", "listed"))
        lines.append(f"kernel {one.kernel}: {counts}")
        lines += [f"  listed at {line}: {what}" for line, what in one.listed]
    lines.append(f"facts added up: {checked.facts}")
    lines += [f"trusted {name}: {said}" for name, said in TRUSTED.items()]
    return "\n".join(lines) + "\n"


def _text_of(session: Session, wants: Phrase) -> str:
    """The input, gpu text or CUDA. Raises Refused (E0004 another stage, or a model)."""
    text = read_text(session, wants, "gpu")
    if stage_of(text) != "cu":
        must_be(text, "gpu")
    return text


def _read(session: Session, file: str, wants: str, read: Callable[[Session, Phrase], str] = Session.read) -> str:
    """The text of a file that is read beside the input."""
    given, session.args.file = session.args.file, file
    try:
        return read(session, wants)
    finally:
        session.args.file = given


def _refused(file: str, fault: Any) -> Exception:
    """The diagnostic of what the verifier refuses."""
    at = f"{file}:{fault.line or 1}"
    return refuse("E1483", at=at, fault=FAULTS[fault.kind], what=fault.what or "-")


def _cuda_of(module: gpu.Module) -> str:
    return language_of("cu").show(lower_to("cu", module, ""))


def _gpu_of(session: Session, module: Any, text: str) -> gpu.Module:
    """The gpu text that becomes this CUDA: the one that is given, or what its regions are planned as by themselves."""
    if session.args.gpu:
        found = gpu.parse(_read(session, session.args.gpu, Phrase("gpu text"), _text_of))
        session.must_hold(language_of("gpu").check(found))
    else:
        found = lower_to("plan", PROGRAMS["cu"](module), module.launches[0].arch if module.launches else "sm90")
        found = lower_to("gpu", found, "")
    if _cuda_of(found) != text:
        raise refuse("E1484", given=session.args.gpu or Phrase("what its regions are planned as"))
    return found
