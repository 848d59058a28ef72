"""argparse as the commands use it: help with examples and exit codes, in English or Japanese; faults that name what was
meant; completion for shells. A part of `kit.cli`, which is the only user of argv."""

from __future__ import annotations

import argparse
import functools
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

from .phrase import EXPLAIN

REFUSED = 1
SHELLS = ("bash", "zsh", "fish", "tcsh")
EXIT_CODES = (
    ("0", "done"),
    ("1", "the input is at fault; nothing was written to stdout"),
    ("2", "the command line is at fault"),
    ("70", "a fault of ours; the input and the trace are kept in a file"),
)


def locale() -> str:
    """The language of messages by the environment."""
    for variable in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if os.environ.get(variable):
            return "ja" if os.environ[variable].startswith("ja") else "en"
    return "en"


@functools.cache
def helps(file: str = "help") -> dict[str, str]:
    """Japanese by English line of help, or of another such file, read once."""
    import tomllib

    return tomllib.loads(EXPLAIN.joinpath(f"{file}.toml").read_text(encoding="utf-8"))


def helped(line: str | None, lang: str) -> str:
    """A line of help in `lang`; in English where there is no translation."""
    line = str(line or "")
    return line if lang == "en" else helps().get(line, line)


def faulted(message: str, lang: str) -> str:
    """A fault of the command line in `lang`: by the first sentence that it is, with words in the holes, each of which
    may be such a fault itself; in English where there is none."""
    for sentence, other in helps("usage").items() if lang != "en" else ():
        found = re.fullmatch(re.sub(r"\\{(\w+)\\}", r"(?P<\1>.+?)", re.escape(sentence)), message)
        if found:
            return other.format(**{hole: faulted(part, lang) for hole, part in found.groupdict().items()})
    return message


def abandon(stream: Any) -> None:
    """Let what a stream still holds go nowhere: Python would try to write it once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def time_word(word: str) -> str:
    """What `--time` takes: nothing, or `trace` and a file, which the parser has joined by a colon."""
    if word != "table" and not word.startswith("trace:"):
        raise argparse.ArgumentTypeError(f"{word!r} is not `trace FILE`")
    return word


class Completion(argparse.Action):
    """`--print-completion SHELL`: the script on stdout, by shtab."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        try:
            import shtab
        except ImportError:
            parser.error("argument --print-completion: needs shtab: pip install shtab")
        for action in parser._actions:
            if action.dest == "file" or "FILE" in str(action.metavar or ""):
                action.complete = shtab.FILE
            elif "DIR" in str(action.metavar or ""):
                action.complete = shtab.DIRECTORY
        parser._print_message(shtab.complete(parser, values), sys.stdout)
        parser.exit()


_CALLED = {"gpu": "cuda", "nvidia": "cuda", "numpy": "cpu", "host": "cpu", "simulator": "sim"}  # devices elsewhere


class Parser(argparse.ArgumentParser):
    """argparse, whose help and faults go to a full disk or a closed pipe without a second fault at exit. An option with
    a value that may be left out (`--remarks`, `--remarks=json`) never takes the next word, which is the file."""

    def __init__(self, name: str, summary: str, examples: Sequence[tuple[str, str]] = ()):
        self.examples = tuple(examples)
        super().__init__(prog=name, description=summary, allow_abbrev=False)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """argparse's, with each option whose value may be left out joined to its default."""
        words = sys.argv[1:] if args is None else list(args)
        self._words = words
        end = words.index("--") if "--" in words else len(words)
        default = {o: a.const for a in self._actions if a.nargs == "?" and a.const for o in a.option_strings}
        for form in (["--time=trace"], ["--time", "trace"]):
            count = len(form)
            at = next((n for n in range(end - count) if words[n : n + count] == form), None)
            if at is not None and not words[at + count].startswith("-"):
                words[at : at + count + 1] = [f"--time=trace:{words[at + count]}"]
                end -= count
        at = next((n for n in range(end - 1) if words[n : n + 2] == ["--time", "trace"]), None)
        if at is not None and not os.path.exists("trace"):
            words[at : at + 2] = ["--time=trace"]  # refused, since it says no file
            end -= 1
        choices = {o: a.choices or () for a in self._actions for o in a.option_strings if o in default}
        for option, value in zip(words[:end], words[1:end]):
            if value in choices.get(option, ()) and not os.path.exists(value):  # it would be the file
                self.error(f"{value} is not a file; did you mean {option}={value}?")
        words[:end] = [f"{w}={default[w]}" if w in default else w for w in words[:end]]
        return super().parse_known_args(words, namespace)

    @property
    def lang(self) -> str:
        """The language of help: that of `--lang`, else the environment's."""
        stated = re.search(r"--lang[= ](en|ja)\b", " ".join(getattr(self, "_words", ())))
        return stated[1] if stated else locale()

    def format_help(self) -> str:
        """The help with examples and exit codes, in the language that was asked for."""
        kept = [(a, a.help) for a in self._actions], [(g, g.title) for g in self._action_groups], self.description
        lang = self.lang
        try:
            for action, text in kept[0]:
                action.help = helped(text, lang)
            for group, title in kept[1]:
                group.title = helped(title, lang)
            self.description = helped(kept[2], lang)
            return super().format_help() + self._ending(lang)
        finally:
            for action, text in kept[0]:
                action.help = text
            for group, title in kept[1]:
                group.title = title
            self.description = kept[2]

    def _ending(self, lang: str) -> str:
        shown = "".join(f"  {line}\n      {helped(what, lang)}\n" for line, what in self.examples)
        codes = "".join(f"  {code:<4}{helped(what, lang)}\n" for code, what in EXIT_CODES)
        return (
            f"\n{helped('examples', lang)}:\n{shown}" if shown else ""
        ) + f"\n{helped('exit codes', lang)}:\n{codes}"

    def error(self, message: str) -> Any:
        """argparse's, with what may have been meant, in the language that was asked for."""
        known = [o for a in self._actions for o in a.option_strings]
        unknown = re.match(r"unrecognized arguments: (--[\w-]+)", message)
        choice = re.search(r"'([^']*)' (?:\(choose from|is not one of) (.*)", message)
        near = nearest(unknown[1], known) if unknown else ""
        if choice and not near:
            known = re.findall(r"[\w.-]+", choice[2])
            near = nearest(choice[1], known) or (_CALLED.get(choice[1].lower(), "") if "cuda" in known else "")
        said = faulted(message + (f"; did you mean {near}?" if near else ""), self.lang)
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: {faulted('error', self.lang)}: {said}\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        stream = file or sys.stderr
        try:
            stream.write(message)
            stream.flush()
        except OSError as fault:
            abandon(stream)
            if stream is not sys.stderr and not isinstance(fault, BrokenPipeError):
                self.exit(REFUSED, f"{self.prog}: standard output cannot be written: {fault.strerror}\n")


def nearest(word: str, known: Sequence[str]) -> str:
    """The known word that `word` may have meant, or nothing."""
    import difflib

    return next(iter(difflib.get_close_matches(word, known, 1, 0.7)), "")
