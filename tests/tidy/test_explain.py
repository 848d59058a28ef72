"""A code exists when its page does, the page's failing input raises it, and the corrected input does not."""

from __future__ import annotations

import json
import re

import pytest

from tinyir.kit.diag import catalogue
from tinyir.reference.diagnostics import BLOCK, explanation

from ..commands import ROOT, Done, run_in_shell, run_line
from ..japanese import REPORTED, english_in, nouns_in

EXPLAIN = ROOT / "tinyir" / "explain"
FENCE = re.compile(r"^```(fails|corrected): ([^\n]*)\n(.*?)^```", re.M | re.S)
CODE = re.compile(r"\"([EWR]\d{4})\"")
SHELLED = (
    "E0001",
    "E0004",
    "E1207",
    "E1480",
    "E1520",
    "E1620",
    "E1741",
    "R3401",
)  # whose lines run in processes of their own, as a user's do

NOT_ADVISED = {
    "E0001": "the stage before has said what to do",
    "E0002": "it says what can be written there",
}


def _blocks(code: str) -> list[tuple[str, str, str]]:
    return FENCE.findall((EXPLAIN / f"{code}.md").read_text(encoding="utf-8"))


def _asked(line: str) -> str:
    return f"{line} --diag=json --remarks=json"


def _stderr(done: Done) -> str:
    return done.err.decode()


def _told(done: Done) -> list[str]:
    """What the diagnostics of a run say, but for what another program said."""
    lines = [json.loads(line) for line in _stderr(done).splitlines() if line.startswith('{"diagnostics"')]
    return [
        text
        for line in lines
        for d in line["diagnostics"]
        for text in (d["why"], d["suggestion"], *(label["note"] for label in d.get("labels", ())))
        if d["code"] not in REPORTED
    ]


def _advices(done: Done, code: str) -> list[str]:
    """What each diagnostic of a code advises."""
    lines = [json.loads(line) for line in _stderr(done).splitlines() if line.startswith('{"diagnostics"')]
    return [d["suggestion"] for line in lines for d in line["diagnostics"] if d["code"] == code]


def test_every_raised_code_is_in_the_catalogue_and_every_entry_is_raised() -> None:
    used = {c for f in (ROOT / "tinyir").rglob("*.py") for c in CODE.findall(f.read_text(encoding="utf-8"))}
    assert sorted(used - set(catalogue())) == []
    assert sorted(set(catalogue()) - used) == []


def test_every_code_has_a_page_and_no_page_is_without_a_code() -> None:
    assert sorted(f.stem for f in EXPLAIN.glob("*.md")) == sorted(catalogue())
    assert set(SHELLED) <= set(catalogue())


def test_every_page_is_in_japanese_too() -> None:
    assert sorted(f.stem for f in (EXPLAIN / "ja").glob("*.md")) == sorted(catalogue())


@pytest.mark.parametrize("code", sorted(catalogue()))
def test_a_japanese_page_is_japanese_and_has_the_examples(code: str) -> None:
    page, english = explanation(code, "ja"), explanation(code, "en")
    title, words = page.split("\n", 1)
    assert title == english.split("\n", 1)[0]
    ours = BLOCK.sub("", words)
    assert re.search("[\u3041-\u30ff]", words) and english_in(ours) == [] and nouns_in(ours) == []
    assert [m[0] for m in BLOCK.finditer(page)] == [m[0] for m in BLOCK.finditer(english)]


@pytest.mark.parametrize("code", sorted(catalogue()))
def test_entry_is_bilingual(code: str) -> None:
    entry = catalogue()[code]
    assert entry["kind"].isidentifier()
    assert entry["why"].keys() == {"en", "ja"}
    assert entry.get("suggestion", {"en": "", "ja": ""}).keys() == {"en", "ja"}
    assert [n for part in ("why", "suggestion") if part in entry for n in nouns_in(entry[part]["ja"])] == []


def test_every_error_advises() -> None:
    """What to type, but where there is a reason."""
    silent = {code for code, entry in catalogue().items() if code[0] == "E" and "suggestion" not in entry}
    assert silent <= set(NOT_ADVISED)


@pytest.mark.parametrize("code", sorted(catalogue()))
def test_page_fails_and_is_corrected(code: str) -> None:
    page = (EXPLAIN / f"{code}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {code} {catalogue()[code]['kind']}\n")
    blocks = _blocks(code)
    if not blocks:
        assert re.search(r"^no input: \S+", page, re.M), "a page without examples says why"
        return
    assert [kind for kind, _, _ in blocks] == ["fails", "corrected"]
    (_, fails, broken), (_, line, corrected) = blocks
    run = run_in_shell if code in SHELLED else run_line
    assert f'"code": "{code}"' in _stderr(failed := run(f"{_asked(fails)} --lang=ja", broken.encode()))
    assert [told for told in _told(failed) if english_in(told)] == []
    assert code[0] != "E" or code in NOT_ADVISED or all(_advices(failed, code))
    assert f'"code": "{code}"' not in _stderr(done := run(_asked(line), corrected.encode())), _stderr(done)
    assert failed.code in (0, 1) and done.code == 0, _stderr(done)
