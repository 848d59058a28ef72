"""Blocks that were just lowered are held against the maps of the book at a few instances, by nothing that the lowering
has used."""

from __future__ import annotations

import re

import pytest

from tinyir.ir import poly
from tinyir.kit.records import replace
from tinyir.lower import language_of

from ..commands import ROOT

LANGUAGE = language_of("poly")
SAMPLES = sorted(folder.name for folder in (ROOT / "samples").iterdir() if folder.is_dir())


@pytest.mark.parametrize("name", SAMPLES)
def test_each_relation_is_asked(name: str) -> None:
    module = poly.parse((ROOT / "samples" / name / f"{name}.poly").read_text(encoding="utf-8"))
    assert LANGUAGE.confirm(module) == []
    for at, block in enumerate(module.blocks):
        wrong = [replace(block, write=_shifted(block.write)), replace(block, domain=_shorter(block.domain))]
        for n, read in enumerate(block.reads):
            moved = replace(read, relation=_shifted(read.relation))
            wrong.append(replace(block, reads=(*block.reads[:n], moved, *block.reads[n + 1 :])))
        alike = [b for b in module.blocks if b != block]
        for other in wrong:
            if other != block:
                found = LANGUAGE.confirm(replace(module, blocks=(other, *alike)))
                assert {d.code for d in found} == {"E1222"}, (at, other)


def _shifted(relation: str) -> str:
    """Elements one behind, along the first axis of what is read or written."""
    return re.sub(r"(-> \w*\[)(\w)", r"\g<1>1 + \2", relation)


def _shorter(domain: str) -> str:
    """A domain without the first points of an axis."""
    return domain.replace(": 0 <= ", ": 1 <= ", 1)
