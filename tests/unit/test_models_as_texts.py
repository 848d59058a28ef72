"""A model where text is read: every command that reads text of a stage says which filters to put before it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tinyir.ir.pipeline import FILTERS, filters_between

from ..commands import run_line

MODELS = {
    "json": b'{"signature": {}, "tensors": {}, "graph": []}',
    "nodeid": b'// a graph\n{"uops": []}',
    "coreir": b"%0 = Const[0]\noutputs: %0\n",
    "dsl": b"model m\ngraph main(x: f32[4]) -> f32[4] { return relu(x) }\n",
    "onnx": b"\x08\x07\x12\x04test",
    "pt2": b"PK\x03\x04\xff\xfe",
}
COMMANDS = {
    **{name: reads for name, reads, _ in FILTERS if reads != "json"},
    "tiny-check": "tiny",
    "tiny-opt": "tiny",
    "tiny-opt --canonical": "tiny",
    "tiny-play --random 1": "tiny",
    "tiny-tune": "region",
    "tiny-check --diff {file} {file}": "tiny",
    "tiny-check --certify": "tiny",
    "tiny-plan --explain": "region",
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_model_is_the_first_filters(command: str, model: str, tmp_path: Path) -> None:
    file = tmp_path / "model"
    file.write_bytes(MODELS[model])
    line = command.format(file=file) + ("" if "{file}" in command else f" {file}") + " --diag=json"
    done = run_line(line)
    (said,) = json.loads(done.err)["diagnostics"] if done.err.startswith(b'{"diag') else [json.loads(done.err)]
    stage = COMMANDS[command]
    before = " | ".join(["tiny-front", *filters_between("tiny", stage)])
    assert (done.code, said["code"], said["facts"]["given"], said["facts"]["stage"]) == (1, "E0004", model, stage)
    assert before in said["suggestion"]
