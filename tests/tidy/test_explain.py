"""A code exists when its page does, the page's failing input raises it, and the mended input does not."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tinyir.kit.diag import catalogue

ROOT = Path(__file__).resolve().parents[2]
EXPLAIN = ROOT / "tinyir" / "explain"
FENCE = re.compile(r"^```(fails|mended): ([^\n]*)\n(.*?)^```", re.M | re.S)
CODE = re.compile(r"\"([EWR]\d{4})\"")


def _blocks(code: str) -> list[tuple[str, str, str]]:
    return FENCE.findall((EXPLAIN / f"{code}.md").read_text(encoding="utf-8"))


def _run(command: str, text: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PATH": f"{ROOT / 'bin'}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
    return subprocess.run(["bash", "-c", f"{command} --diag=json --remarks=json"], input=text, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=60)


def test_every_raised_code_is_in_the_catalogue_and_every_entry_is_raised() -> None:
    used = {c for f in (ROOT / "tinyir").rglob("*.py") for c in CODE.findall(f.read_text(encoding="utf-8"))}
    assert sorted(used - set(catalogue())) == []
    assert sorted(set(catalogue()) - used) == []


def test_every_code_has_a_page_and_no_page_is_without_a_code() -> None:
    assert sorted(f.stem for f in EXPLAIN.glob("*.md")) == sorted(catalogue())


@pytest.mark.parametrize("code", sorted(catalogue()))
def test_entry_is_bilingual(code: str) -> None:
    entry = catalogue()[code]
    assert entry["kind"].isidentifier()
    assert entry["why"].keys() == {"en", "ja"}
    assert entry.get("suggestion", {"en": "", "ja": ""}).keys() == {"en", "ja"}


@pytest.mark.parametrize("code", sorted(catalogue()))
def test_page_fails_and_mends(code: str) -> None:
    page = (EXPLAIN / f"{code}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {code} {catalogue()[code]['kind']}\n")
    blocks = _blocks(code)
    if not blocks:
        assert re.search(r"^no input: \S+", page, re.M), "a page without examples says why"
        return
    assert [kind for kind, _, _ in blocks] == ["fails", "mended"]
    (_, fails, broken), (_, mends, mended) = blocks
    assert f'"code": "{code}"' in _run(fails, broken).stderr
    assert f'"code": "{code}"' not in (done := _run(mends, mended)).stderr, done.stderr
    assert done.returncode == 0, done.stderr
