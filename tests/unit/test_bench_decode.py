"""The bench of one query: what it measures, and that each form is attention on tensor cores without a copy of the
cache."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.bench.decode import Case, cases, model_of, table, variants
from tinyir.front.json import read
from tinyir.lower import index, poly
from tinyir.lower import plan as to_plan
from tinyir.lower import region as to_region

FORMS = {(c.kv, c.queries, bool(c.room), bool(c.page)): c for c in cases() if c.batch == 8 and c.length == 4096}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_attention_on_tensor_cores(form: tuple) -> None:
    regions = to_region.lower(poly.lower(index.lower(read(model_of(FORMS[form])))))
    plans = to_plan.lower(regions, "sm90", "h200").plans
    assert plans[0].algo == "streaming_softmax"
    assert len({p.regions for p in plans}) <= 2


@pytest.mark.parametrize("length", [4096, 65536])
def test_chunks_of_one_query_are_two_ctas_to_an_sm(length: int) -> None:
    """Measured on an H200, one that walks takes 2 % longer: nothing hides its waits."""
    regions = to_region.lower(poly.lower(index.lower(read(model_of(Case(8, 32, 8, length))))))
    first = to_plan.lower(regions, "sm90", "h200").plans[0]
    assert (first.tile[1], first.threads, first.persistent) == (64, (160,), 0)


def test_cases_have_names_of_their_own_and_the_bytes_of_their_cache() -> None:
    every = [*cases(), *variants()]
    assert len({case.name for case in every}) == len(every)
    assert Case(8, 32, 8, 4096).bytes == 2 * 8 * 8 * 4096 * 128 * 2 == replace(Case(8, 32, 8, 4096), room=8192).bytes


def test_a_table_says_the_share_of_a_copy_and_the_least_ratio() -> None:
    case = Case(8, 32, 8, 4096)
    row = {
        "case": {name: getattr(case, name) for name in Case.__slots__},
        "plan": "contraction streaming_softmax: tile [64, 128, 128], stages 3",
        "us": {"ours": 40.0, "cudnn": 50.0, "fa2": 60.0, "copy": 32.0},
        "ratio": {"cudnn": 1.25, "fa2": 1.5},
        "gbs": 3355.0,
        "share": 0.8,
    }
    text = table([row])
    assert "| 134 | 40.0 | 3355 | 0.80 | 50.0 us, 1.25 | 60.0 us, 1.50 |" in text
    assert "mean 1.250, least 1.250" in text
