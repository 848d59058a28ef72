"""What every command line offers: help with examples that run, completion, suggestions, the list of commands."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tinyir.cmd import COMMANDS, command_of
from tinyir.ir.pipeline import STAGES
from tinyir.kit.options import EXIT_CODES, SHELLS

from ..commands import ROOT, run_in_shell, run_line

SAMPLE = ROOT / "samples" / "gemm_bias_relu" / "gemm_bias_relu"
EXAMPLES = [(name, line) for name in COMMANDS for line, _ in command_of(name).parser().examples]
NEEDS_GPU = ("tiny-tune m.region -o m.plan",)
LASTING = ("tiny-lsp",)  # which end when their input does


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_examples_and_the_exit_codes(name: str) -> None:
    parser = command_of(name).parser()
    assert len(parser.examples) >= 2 and all(name in line for line, _ in parser.examples)
    text = run_line(f"{name} --help").out.decode()
    assert all(line in text for line, _ in parser.examples)
    assert all(f"  {code:<4}{what}\n" in text for code, what in EXIT_CODES)


@pytest.mark.parametrize(("name", "line"), EXAMPLES, ids=[line for _, line in EXAMPLES])
def test_an_example_is_a_command_line(name: str, line: str) -> None:
    """Each of its commands has the options that the line gives."""
    for part in re.split(r" \| ", re.sub(r" > \S+", "", line)):
        command, *words = shlex.split(part)
        if command in COMMANDS:
            command_of(command).parser().parse_args(words)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files by the names that examples have."""
    made = tmp_path_factory.mktemp("examples")
    shutil.copy(f"{SAMPLE}.json", made / "model.json")
    for stage in ("json", *STAGES):
        shutil.copy(f"{SAMPLE}.{stage}", made / ("k.cu" if stage == "cu" else f"m.{stage}"))
    draw = np.random.default_rng(7)
    shapes = {"A": (30, 16), "B": (16, 24), "bias": (24,)}
    np.savez(made / "in.npz", **{n: draw.standard_normal(s).astype(np.float16) for n, s in shapes.items()})
    import onnx
    from onnx import TensorProto, helper

    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 3, 224, 224]) for n in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu", value[:1], value[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), made / "model.onnx")
    assert run_in_shell(f"cd {made} && tiny-check --certify k.cu > k.cert").code == 0
    return made


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for name, line in EXAMPLES if name not in LASTING and line not in NEEDS_GPU])
def test_an_example_runs(line: str, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "here")
    done = run_in_shell(f"cd {tmp_path / 'here'} && set -o pipefail && {line}")
    assert done.code == 0, done.err.decode()


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_knows_the_options(shell: str) -> None:
    done = run_line(f"tiny-plan --print-completion {shell}")
    assert (done.code, done.err) == (0, b"")
    assert all(word in done.out for word in (b"arch", b"explain", b"atomics"))


@pytest.mark.parametrize(("line", "meant"), [
    ("tiny-plan --devcie=h100", "--device"),
    ("tiny-plan --arch sm91", "sm90"),
    ("tinyc --emmit plan", "--emit"),
    ("tinyc --emit regoin", "region"),
    ("tiny-run --chekc", "--check"),
    ("tinyc --dump tinny", "tiny"),
    ("tiny-opt --pass merge_equl", "merge_equal"),
])  # fmt: skip
def test_a_misspelt_option_is_told_what_was_meant(line: str, meant: str) -> None:
    done = run_line(line)
    assert done.code == 2 and done.err.decode().rstrip().endswith(f"did you mean {meant}?")


@pytest.mark.parametrize(("line", "said"), [
    ("tinyc --lang ja --emit regoin", "引数 --emit: 'regoin' は選べません (選べるもの: "),
    ("tinyc --lang ja --dump tinny", "のことですか?"),
    ("tinyc --lang=ja --room many", "tinyc: エラー: 引数 --room: 'many' は整数ではありません"),
])  # fmt: skip
def test_a_fault_of_the_command_line_is_told_in_japanese(line: str, said: str) -> None:
    done = run_line(line)
    assert done.code == 2 and said in done.err.decode().splitlines()[-1]


def test_the_package_lists_its_commands() -> None:
    done = subprocess.run([sys.executable, "-m", "tinyir"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0
    listed = dict(re.findall(r"^(\S+) +(.+)$", done.stdout.split("\n\n", 1)[1], re.M))
    assert list(listed) == list(COMMANDS) and all(listed.values())
    wrong = subprocess.run([sys.executable, "-m", "tinyir", "tiny-pln"], cwd=ROOT, capture_output=True, text=True)
    assert wrong.returncode == 2 and "did you mean tiny-plan?" in wrong.stderr


def test_every_command_is_installed() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert re.findall(r'^(tiny[\w-]*) = "tinyir\.cmd\.(\w+):main"$', project, re.M) == [
        (name, name.replace("-", "_")) for name in COMMANDS
    ]
    assert {f.name for f in (ROOT / "bin").iterdir()} == set(COMMANDS)


def test_a_correction_is_written_in_place(tmp_path: Path) -> None:
    model = tmp_path / "m.json"
    right = Path(f"{SAMPLE}.json").read_text(encoding="utf-8")
    model.write_text(right.replace('"GEMM"', '"GEM"').replace("acc_dtype", "acc_dtyp"), encoding="utf-8")
    done = run_line(f"tiny-front --fix --in-place {model}")
    assert (done.code, done.out) == (0, b"")
    assert model.read_text(encoding="utf-8") == right
    assert run_line("tiny-front --fix --in-place").code == 2
    assert run_line(f"tiny-front --in-place {model}").code == 2


def test_json_says_where_a_fault_is(tmp_path: Path) -> None:
    wrong = tmp_path / "m.tiny"
    wrong.write_text(Path(f"{SAMPLE}.tiny").read_text(encoding="utf-8").replace("MUL(", "MULL("), encoding="utf-8")
    (told,) = json.loads(run_line(f"tiny-check {wrong} --diag=json").err)["diagnostics"]
    line = wrong.read_text(encoding="utf-8").split("\n")[told["start"]["line"] - 1]
    assert (told["severity"], told["file"], told["code"]) == ("error", str(wrong), "E0105")
    assert line[told["start"]["column"] - 1 : told["end"]["column"] - 1] == "MULL"
    assert told["edit"]["text"] == "MUL"


def test_what_comes_after_a_fault_says_one_line() -> None:
    done = run_in_shell("tiny-index no/such.tiny | tiny-poly | tiny-region")
    told = [line.split(":")[0] for line in done.err.decode().splitlines()]
    assert told[0] == "error[E0008] UnreadableFile at no/such.tiny"
    assert [word for word in told if word.startswith("tiny-")] == ["tiny-poly", "tiny-region"]


@pytest.mark.parametrize("option", ["--shape X=4,768", "--value X=1", "--state X=Y", "--room 4"])
@pytest.mark.parametrize("command", ["tiny-front", "tinyc", "tiny-view"])
def test_an_option_that_a_text_has_no_use_for_is_refused(command: str, option: str) -> None:
    done = run_line(f"{command} samples/mlp/mlp.json {option} --diag=json")
    (said,) = json.loads(done.err)["diagnostics"]
    assert (done.code, done.out, said["code"], said["at"]) == (1, b"", "E0018", option.split()[0])
