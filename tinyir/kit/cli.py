"""The contract that every executable keeps, written once (spec sections 2 and 3).

A filter reads a text, parses and checks it, lowers it, checks the result and prints it: all of it, or on any error
nothing. Exit codes: 0 done, 1 the input is at fault, 2 usage, 70 our own fault. Diagnostics go to stderr. The only user
of argv, stdin, stdout and exit codes.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from .. import __version__
from .diag import Diag, Refused, refuse
from .files import NO_ROOM, unwritable, write_whole
from .held import is_marked, mark
from .options import SHELLS, Completion, Parser, abandon, locale, time_word
from .phrase import Phrase, why_of
from .progress import hush, watching
from .quote import visible
from .text import MAX_TEXT, decode
from .work import keep_spans, span, table, trace

OK, REFUSED, OUR_FAULT = 0, 1, 70  # 2 is argparse's: the command line is at fault
# bytes of an input that is not a text: the most that a protocol buffer, and so an ONNX file, can have
MAX_BINARY = 1 << 31
Notes = list[Diag]


class Session:
    """One run of one command: its arguments, what it has read, and the way its messages are drawn."""

    def __init__(self, name: str, args: argparse.Namespace):
        self.name = name
        self.args = args
        self.text = ""
        self.file = ""
        self.notes: Notes = []

    def read(self, wants: str) -> str:
        """The input: the FILE argument or stdin, as text. `wants` says what it should be, for the message when there is
        nothing.

        Raises Refused: E0001 empty, E0007 not UTF-8, E0008 unreadable, E0006 too large."""
        return self.decode(self.read_bytes(), wants)

    def read_bytes(self) -> bytes:
        """The input as it is, text or not. Raises Refused (E0006 too large, E0008)."""
        path = self.args.file
        self.file = path if path and path != "-" else ""
        name = self.file or Phrase("standard input")
        try:
            if self.file:
                with open(self.file, "rb") as source:
                    return _read_bounded(source)
            if sys.stdin is None:
                raise refuse("E0008", at=name, file=name, reason=Phrase("it is closed"))
            return _read_bounded(sys.stdin.buffer)
        except (OSError, ValueError) as fault:
            raise refuse("E0008", at=name, file=name, reason=why_of(fault)) from None

    def decode(self, raw: bytes, wants: str) -> str:
        """The bytes of the input as the session's text. Raises Refused (E0001, E0006, E0007)."""
        self.text = decode(raw, wants)
        return self.text

    def timed(self, step: str, work: Callable[[], Any]) -> Any:
        """`work()`, its seconds kept for `--time`."""
        with span(step):
            return work()

    def must_hold(self, diags: Sequence[Diag]) -> None:
        """Refuse on errors; keep warnings to print at the end."""
        if any(d.is_error for d in diags):
            raise Refused(diags)
        self.notes += diags

    def write(self, text: str) -> None:
        """The whole output as UTF-8, whatever the locale, to `-o FILE` (atomically) or stdout. Raises Refused
        (E0009)."""
        hush()
        target = getattr(self.args, "output", None)
        if target and target != "-":
            write_whole(Path(target), text.encode("utf-8"))
            return
        name = Phrase("standard output")
        if sys.stdout is None:
            raise refuse("E0009", at=name, file=name, reason=Phrase("it is closed"))
        try:
            sys.stdout.flush()
            sys.stdout.buffer.write(text.encode("utf-8"))
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            raise
        except OSError as fault:
            abandon(sys.stdout)
            raise unwritable(name, fault) from None

    def report(self, diags: Sequence[Diag]) -> None:
        """Draw diagnostics on stderr, in source order, in the asked form and language."""
        from .render import draw

        if self.args.diag != "json" and [d.code for d in diags] == ["E0001"] and not self.file:
            tell(f"{self.name}: {diags[0].why(self.args.lang)}")  # what failed before has its own message
            return
        from .spelling import with_edits

        ordered = sorted(with_edits(diags, self.text), key=lambda d: d.span.start if d.span else -1)
        with telling():
            draw(ordered, self.text, self.file or "<stdin>", self.args.diag, self.args.lang)


@contextlib.contextmanager
def telling() -> Iterator[None]:
    """For what is written to stderr: where that cannot be written, nothing is said, and the exit code stays."""
    hush()
    try:
        yield
        sys.stderr.flush()
    except OSError:
        abandon(sys.stderr)


def tell(text: str) -> None:
    """A line on stderr."""
    with telling():
        print(text, file=sys.stderr)


def _read_bounded(source: BinaryIO) -> bytes:
    """All of the source, or one byte more than a text may have: only what does not begin as text does is read further.
    Raises Refused (E0006)."""
    raw = source.read(MAX_TEXT + 1)
    if len(raw) <= MAX_TEXT or raw[:1] in _TEXT_BEGINS:
        return raw
    raw += source.read(MAX_BINARY - len(raw) + 1)
    if len(raw) > MAX_BINARY:
        raise refuse("E0006", what=Phrase("the input (at most {most} bytes)", most=MAX_BINARY))
    return raw


_TEXT_BEGINS = {bytes([b]) for b in (0, *b"\t\n\r", *range(0x20, 0x100))}


Examples = Sequence[tuple[str, str]]  # a command line, and what it does


def parser_of(
    name: str, summary: str, reads: str | None, has_output: bool = True, examples: Examples = ()
) -> argparse.ArgumentParser:
    """The options that every command has; `reads` describes FILE, or is None for a command without one. `--help` ends
    with the examples."""
    if sys.stderr is None:  # closed by the caller: messages must not go to stdout in its place
        sys.stderr = open(os.devnull, "w", encoding="utf-8")
    parser = Parser(name, summary, examples)
    if reads is not None:
        parser.add_argument("file", nargs="?", metavar="FILE", help=f"{reads} (default: stdin)")
    if has_output:
        parser.add_argument("-o", dest="output", metavar="FILE", help="write here instead of stdout; all or nothing")
    parser.add_argument("--version", action="version", version=f"{name} {__version__}")
    parser.add_argument(
        "--diag",
        choices=("rich", "plain", "json"),
        default="rich" if sys.stderr.isatty() else "plain",
        help="how messages are drawn (default: rich on a terminal, else plain)",
    )
    parser.add_argument(
        "--lang", choices=("en", "ja"), default=locale(), help="language of messages (default: from the locale)"
    )
    parser.add_argument(
        "--remarks",
        nargs="?",
        const="text",
        choices=("text", "json"),
        help="say on stderr what was done, and what was not and why",
    )
    parser.add_argument(
        "--time",
        nargs="?",
        const="table",
        type=time_word,
        metavar="trace FILE",
        help="print the time of each step, and what was counted in it, on stderr; as `--time trace FILE` write them to "
        "FILE as a Chrome trace",
    )
    parser.add_argument(
        "--print-completion",
        action=Completion,
        choices=SHELLS,
        help="print a script by which a shell completes this command's options",
    )
    return parser


def run(name: str, args: argparse.Namespace, body: Callable[[Session], int | None]) -> int:
    """`body` under the contract: Refused is drawn and gives 1, a closed pipe ends quietly, anything else is our fault
    and gives 70."""
    session = Session(name, args)
    keep_spans(bool(args.time))
    gc.disable()  # a command lives for one text and makes few cycles; collecting them costs half its time on long ones
    atexit.register(gc.freeze)  # else Python looks for them twice more when it ends, a tenth of a short one's time
    try:
        with watching(name):
            code = body(session) or OK
        _report_notes(session)
        _report_times(session)
        return code
    except Refused as fault:
        session.report([*fault.diags, *session.notes])
        return REFUSED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes stdout once more at exit
        return OK
    except KeyboardInterrupt:
        return 130
    except RecursionError:
        session.report([Diag("E0006", facts={"what": Phrase("nesting")})])
        return REFUSED
    except MemoryError:
        session.report([Diag("E0006", facts={"what": Phrase("what this input needs of memory")})])
        return REFUSED
    except Exception as fault:  # noqa: BLE001 - the one place where nothing may pass
        if isinstance(fault, OSError) and fault.errno in NO_ROOM:
            session.report([*unwritable(fault.filename, fault).diags, *session.notes])
            return REFUSED
        _report_our_fault(session, fault)
        return OUR_FAULT


def _report_notes(session: Session) -> None:
    remarks = [d for d in session.notes if d.code.startswith("R")]
    warnings = [d for d in session.notes if not d.code.startswith("R")]
    if warnings:
        session.report(warnings)
    if remarks and session.args.remarks:
        session.args.diag = "json" if session.args.remarks == "json" else session.args.diag
        session.report(remarks)


def _report_times(session: Session) -> None:
    """What `--time` asks for. Raises Refused (E0009)."""
    if session.args.time == "table":
        for line in table(session.name):
            tell(line)
    elif session.args.time:
        write_whole(Path(session.args.time.removeprefix("trace:")), trace().encode("utf-8"))


def _report_our_fault(session: Session, fault: Exception) -> None:
    import traceback

    frames = traceback.extract_tb(fault.__traceback__)
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
    tell(
        f"{session.name}: a fault of ours, not of the input: {type(fault).__name__} at {place}: "
        f"{visible(str(fault)[:200])}"
    )
    told = "".join(traceback.format_exception(fault))
    try:
        name = _kept_for_report(session, told)
    except OSError as unkept:
        tell(f"  the input and the trace cannot be kept ({why_of(unkept)}); please report this one:\n{told}")
    else:
        tell(f"  the input and the trace are kept in {name}; please report them")


def _kept_for_report(session: Session, told: str) -> str:
    """The file in which the trace and the input of a fault of ours are kept. Raises OSError."""
    import tempfile

    with tempfile.NamedTemporaryFile(
        "w", prefix=f"{session.name}-", suffix=".txt", delete=False, encoding="utf-8", errors="surrogatepass"
    ) as kept:
        kept.write(told + "\n--- input\n" + session.text)
    return kept.name


def must_be_faultless(diags: Sequence[Diag]) -> None:
    """Raise AssertionError on an error in what we made: what is printed must hold, or the fault is ours (exit code
    70)."""
    faults = [d for d in diags if d.is_error]
    if faults:
        raise AssertionError("; ".join(f"{d.code} at {d.at}: {d.why()}" for d in faults[:5]))


def filter_main(
    args: argparse.Namespace,
    name: str,
    read: Callable[[Session], Any],
    target: Callable[[], Any],
    lower: Callable[[Any, argparse.Namespace, Notes], Any],
) -> int:
    """A filter from one language to the next. `read` gives the checked module, `target()` is the ir module of the
    result."""

    def body(session: Session) -> None:
        module = read(session)
        result = session.timed("lower", lambda: lower(module, session.args, session.notes))
        language = target()
        found = session.timed(f"check {language.STAGE}", lambda: language.check(result))
        must_be_faultless(found)
        text = session.timed("show", lambda: language.show(result))
        if not found and not is_marked(asked := f"{session.text}{text}"):
            must_be_faultless(language.confirm(result, module))
            mark(asked)  # this text was lowered to that one, which
            mark(text)  # states what its program means: the next filter need not ask
        session.write(text)

    return run(name, args, body)
