"""A hundred faults and more planted in region texts that we generate: tiny-check finds each, in its region; and none
where none was planted."""

from __future__ import annotations

import itertools

import pytest

from tinyir.ir import region
from tinyir.kit.diag import Diag, Refused

from ..japanese import english_of
from .region_faults import KINDS, faults_of, leaves, programs

EACH = 10


def said_of(text: str) -> list[Diag]:
    """What reading and checking a text says."""
    try:
        return region.check(region.parse(text))
    except Refused as fault:
        return list(fault.diags)


@pytest.mark.parametrize("kind", KINDS)
def test_faults_of_a_kind_are_found(kind: str) -> None:
    planted = list(itertools.islice(faults_of(kind), EACH))
    assert len(planted) == EACH and len({name for name, *_ in planted}) > 1
    for name, at, module in planted:
        said = said_of(region.show(module))
        assert english_of(said) == []
        assert KINDS[kind][1] in {d.code for d in said}, (name, at, kind)
        assert {d.at for d in said} <= {at, *(t.name for t in module.model.outputs)}, (name, at, kind)


def test_more_than_a_hundred_faults() -> None:
    assert EACH * len(KINDS) >= 100


def test_no_alarm_where_nothing_was_planted() -> None:
    for name, module in programs().items():
        assert region.check(module) == [], name
        assert not any(leaves(module, one) for one in module.program.regions), name
