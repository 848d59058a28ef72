"""The benchmark of whole networks goes on after a network that fails, and says so with its exit code."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.bench import models
from tinyir.kit.diag import refuse


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    def run(found: dict[str, Any], *words: str) -> tuple[int, list[dict[str, Any]]]:
        def network(one: models.Network, *_: Any) -> dict[str, Any]:
            if isinstance(found[one.name], Exception):
                raise found[one.name]
            return {"network": one.name, "dtype": one.dtype, "differs": found[one.name]}

        monkeypatch.setattr(models, "run_network", network)
        monkeypatch.setattr(models, "ProcessPoolExecutor", lambda jobs, mp_context: ThreadPoolExecutor(jobs))
        monkeypatch.setattr(models, "compiled", lambda *_: 0.0)
        monkeypatch.setattr(
            sys,
            "argv",
            ["models.py", *found, "--small", "--dtype", "fp32", "--out", str(tmp_path / "rows.json"), *words],
        )
        return models.main(), json.loads((tmp_path / "rows.json").read_text())

    return run


def test_one_that_fails_is_named_and_the_next_goes_on(rows: Any, capsys: pytest.CaptureFixture) -> None:
    code, found = rows({"bert": refuse("E1718", reason="none is here"), "vit": KeyError("x"), "gpt2": 1e-6})
    assert code == 1 and [r.get("failed", "")[:12] for r in found] == ["E1718: no NV", "KeyError: 'x", ""]
    assert "bert fp32: FAILED, E1718" in capsys.readouterr().err
    assert rows({"gpt2": 1e-6})[0] == 0 and rows({"gpt2": 0.5})[0] == 1 and rows({"gpt2": float("inf")})[0] == 1


def test_the_greatest_difference_is_in_units_of_the_output() -> None:
    wanted = {"y": np.array([100.0, -200.0]), "z": np.array([1.0])}
    assert models.greatest_difference({"y": np.array([100.0, -199.0]), "z": np.array([1.0])}, wanted) == pytest.approx(
        0.005
    )
    assert models.greatest_difference({"y": np.array([100.0, np.nan]), "z": np.array([1.0])}, wanted) == float("inf")
