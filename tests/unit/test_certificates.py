"""Certificates of kernels: those of all samples and networks hold, nearly all of what they say is proven, and a false
one is refused, by a program that shares no code with what makes them."""

from __future__ import annotations

import ast
import functools
import hashlib
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tinyir import verifier
from tinyir.certificate import Draft
from tinyir.front.json import read
from tinyir.ir import gpu, plan
from tinyir.kit import work
from tinyir.lower import lower_to
from tinyir.verifier import Refused, Verifier
from tinyir.verifier.run import order, runs_of
from tinyir.verifier.text import Kernel, Text

from ..commands import ROOT, run_line
from ..models import RandomModel, bert, gpt2, resnet50, vit
from .falsehoods import falsehoods

SAMPLES = sorted(p.parent.name for p in (ROOT / "samples").glob("*/*.gpu"))
NETWORKS: dict[str, Callable[..., RandomModel]] = {"bert": bert, "gpt2": gpt2, "resnet50": resnet50, "vit": vit}
MOST_LINES = 1187  # of code in the verifier: it is to be read by whoever trusts it
MOST_OF_A_CLAIM = 800  # and of what one claim of a certificate rests on
STDLIB = {
    "__future__",
    "ast",
    "collections",
    "contextlib",
    "functools",
    "hashlib",
    "itertools",
    "math",
    "pathlib",
    "re",
    "typing",
}


def sample(name: str, stage: str) -> str:
    return (ROOT / "samples" / name / f"{name}.{stage}").read_text(encoding="utf-8")


def certified(text: str) -> str:
    """The certificate of a gpu text, less what the verifier does not confirm."""
    draft = Draft(gpu.parse(text))
    checked = Verifier(draft.show(""), is_draft=True)
    assert list(checked.verdicts())
    return draft.show("", checked.unconfirmed)


@functools.cache
def certificate(name: str) -> str:
    return certified(sample(name, "gpu"))


def counts_of(source: str) -> Counter[str]:
    """How many obligations a certificate that holds has of each status. Raises Refused."""
    checked = Verifier(source)
    found = sum((verdict.counts for verdict in checked.verdicts()), Counter[str]())
    assert checked.facts > 0
    return found


def test_certificates_of_all_samples_hold_and_are_proven() -> None:
    found = {name: counts_of(certificate(name)) for name in SAMPLES}
    total = sum(found.values(), Counter[str]())
    assert total["proven"] >= 0.99 * total.total()
    assert total["guarded"] > 0


def test_warpgroups_that_take_turns_are_proven() -> None:
    in_turns = [name for name in SAMPLES if "mbarrier turn" in sample(name, "gpu")]
    assert in_turns
    assert [name for name in in_turns if counts_of(certificate(name))["listed"]] == []


def test_an_image_whose_channels_are_turned_is_proven() -> None:
    """Its CTAs and pieces are numbered by digits of one number, several times over."""
    assert "reg turned" in sample("conv3x3_silu", "gpu")
    assert counts_of(certificate("conv3x3_silu"))["listed"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_certificates_of_networks_hold_and_are_proven(name: str) -> None:
    module = read(NETWORKS[name](dtype="fp16").text)
    for stage in ("index", "poly", "region", "plan", "gpu"):
        module = lower_to(stage, module, "sm90")
    found = counts_of(certified(gpu.show(module)))
    assert found["proven"] >= 0.99 * found.total()


def refusals(name: str, most: int) -> Counter[str]:
    """How often a certificate with something false is refused, by the kind of fault; each is."""
    found: Counter[str] = Counter()
    for what, source in falsehoods(certificate(name), most):
        with pytest.raises(Refused) as refused:
            list(Verifier(source).verdicts())
            pytest.fail(f"{name} holds with {what}")
        assert refused.value.kind != "counts" or what.startswith(("heads", "statuses")), what
        found[refused.value.kind] += 1
    return found


def test_falsehoods_are_refused() -> None:
    found = sum((refusals(name, 24) for name in ("embedding", "layernorm")), refusals("mlp", 2))
    assert found.total() > 200
    assert set(found) == {"counts", "digest", "header", "missing", "of nothing", "sum", "text"}


@pytest.mark.slow
def test_falsehoods_about_tensor_cores_are_refused() -> None:
    assert refusals("mlp", 30).total() > 200


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        (
            "layernorm",
            [("grid [floor((R + 3)/4)]", "grid [floor((R + 7)/4)]")],
        ),  # CTAs beside the tensor
        ("layernorm", [("let i0 = 4*cta.x + thread.y", "let i0 = 4*cta.x + thread.y + 1")]),  # the first row is left
        ("layernorm", [("let i0 = 4*cta.x + thread.y", "let i0 = 3*cta.x + thread.y")]),  # rows that two CTAs write
        ("layernorm", [("for u in 0..3", "for u in 0..2")]),  # the last third of a row is left
        ("embedding", [("let e = 128*cta.x + thread.x", "let e = 128*cta.x + lane")]),  # warps write what others do
    ],
)
def test_a_store_is_proven_where_it_writes_each_element_once(name: str, changes: list[tuple[str, str]]) -> None:
    text = sample(name, "gpu")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    checked = Verifier(Draft(gpu.parse(text)).show(""), is_draft=True)
    listed = {what.rpartition(" ")[0] for verdict in checked.verdicts() for _, what in verdict.listed}
    shown = {"no element twice", "every element"} - listed
    assert shown == ({"no element twice", "every element"} if "R + 7" in text else shown - {"every element"})
    assert len(shown) < 2 or "R + 7" in text


@pytest.mark.parametrize(("teller", "is_seen"), [(0, False), (32, True)])
def test_a_thread_tells_of_what_it_has_done_itself(teller: int, is_seen: bool) -> None:
    text = f"""kernel k : sm90 grid [1] block [256]
  shared x : fp32[128]
  mbarrier full count 1
  barrier cta
  role writer warpgroups 0..1
    if warpgroup.thread = 0
      store x[0] = 1.0 : fp32
    if warpgroup.thread = {teller}
      arrive full
  role reader warpgroups 1..2
    wait full phase 0
    reg r : fp32[1]
    r[0] = x[0]"""
    found = runs_of(Kernel(list(enumerate(text.splitlines(), 1))), Text("tinyir 1.2 gpu"))
    assert found and any("x" in run.faults for run in found) is is_seen


def test_a_slot_of_a_warp_is_of_no_other_count() -> None:
    text = """kernel k : sm90 grid [1] block [128]
  shared x : fp32[32] ring 4
  store x[warp.index][lane] = 1.0 : fp32
  barrier warp
  reg r : fp32[1]
  r[0] = x[0][lane]"""
    assert runs_of(Kernel(list(enumerate(text.splitlines(), 1))), Text("tinyir 1.2 gpu")) == []


@pytest.mark.parametrize(("size", "is_run"), [("M = 8", True), ("M = 31", False)])
def test_what_no_run_has_seen_is_not_shown(size: str, is_run: bool) -> None:
    """Of a kernel for sizes at which nothing is run nothing is known, though nothing wrong was seen."""
    kernel = f"kernel k : sm90 grid [1] block [128]\n  assume {size}\n  shared x : fp32[128]"
    text = Text("tinyir 1.2 gpu\nmodel m\n  in  a : fp32[M]\n  sym M in 1..99")
    found = list(order(Kernel(list(enumerate(kernel.splitlines(), 1))), text, {}))
    assert [(one.what, one.shows) for one in found] == [("used in order", is_run)]


def test_what_makes_a_floor_one_holds_of_positive_divisors_alone() -> None:
    """Of a divisor that may be 0 both halves of it together would say that it is not."""
    source = certificate("blur_of_blur")
    start = source.index("    divisor: ")
    end = source.index("\n", source.index("      proven", start))
    claim = source[start:end].split("\n")[0]
    divisor = claim.partition(": ")[2].removesuffix(" - 1")
    floor = f"floor(e/({divisor}))"
    terms = f"1*deny + 1*[e - {divisor}*{floor}] + 1*[{divisor}*{floor} + {divisor} - 1 - e]"
    with pytest.raises(Refused) as refused:
        list(Verifier(f"{source[:start]}{claim}\n      proven {terms}{source[end:]}").verdicts())
    assert refused.value.kind == "sum"


def test_a_loop_in_steps_that_fill_its_way_stays_inside() -> None:
    """Its last turn ends where the axis does: both programs know that of the loop's turns."""
    case = (ROOT / "tinyir" / "kernels" / "synchronous" / "cases" / "synchronous.plan").read_text(encoding="utf-8")
    whole = re.sub(r"\bK\b", "64", re.sub(r" K=\d+,", "", case)).replace("[i0, i1, k0]", "[i0, i1]")
    counts = counts_of(certified(gpu.show(lower_to("gpu", plan.parse(whole), "sm90"))))
    assert counts["proven"] == counts.total() > 40


@pytest.mark.parametrize("line", ["      proven", "      guarded", "      shown", "      at i0: 0"])
def test_nothing_is_said_of_an_obligation_behind_its_status(line: str) -> None:
    said = "\n      proven\n"
    source = certificate("embedding").replace(said, f"{said}{line}\n", 1)
    with pytest.raises(Refused) as refused:
        Verifier(source)
    assert refused.value.kind == "line"


def test_a_text_that_is_no_text_is_refused() -> None:
    lines = certificate("embedding").splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("|   let e"))
    for line in ("|   guess x", "|   let e = 5", "|   let y = floor(e/0)", "|   if e < 1\n|     assume 1 <= S"):
        changed = "\n".join([*lines[:start], line, *lines[start:]])
        with pytest.raises(Refused) as refused:
            list(Verifier(_signed(changed)).verdicts())
        assert refused.value.kind == "text", line


def _signed(source: str) -> str:
    text = "".join(f"{line[2:]}\n" for line in source.splitlines() if line.startswith("|"))
    return re.sub(r"(?m)^gpu sha256 .*$", f"gpu sha256 {hashlib.sha256(text.encode()).hexdigest()}", source)


def test_the_verifier_is_alone(tmp_path: Path) -> None:
    folder = Path(verifier.__file__).parent
    imported = {
        module if node.level == 0 else "." * node.level
        for file in folder.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        for module in (node.module or "",)
    }
    assert {name.partition(".")[0] or "." for name in imported} <= STDLIB | {"."}
    shutil.copytree(folder, tmp_path / "verifier", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "k.cert").write_text(certificate("embedding"), encoding="utf-8")
    program = "from verifier import Verifier; print(len(list(Verifier(open('k.cert').read()).verdicts())))"
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, '.'); {program}"],
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"1\n"


def code_lines(file: Path) -> int:
    """The lines of a file that are code: no documentation, comments or empty lines."""
    source = file.read_text(encoding="utf-8")
    said = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = enumerate(source.splitlines(), 1)
    return sum(bool(line.strip()) and not line.strip().startswith("#") and at not in said for at, line in lines)


FOLDER = Path(verifier.__file__).parent


def test_the_verifier_is_small() -> None:
    assert sum(code_lines(file) for file in FOLDER.glob("*.py")) < MOST_LINES


@pytest.mark.parametrize("check", verifier.Verifier.checks, ids=lambda check: check.__name__)
def test_what_a_claim_rests_on_is_smaller(check: Callable[..., object]) -> None:
    """A claim is trusted by who reads the program that makes it, with all that this one is made of: no other one says
    anything of it."""
    read, waiting = {"__init__"}, ["certificate", check.__module__.rpartition(".")[2]]
    while waiting:
        name = waiting.pop()
        read.add(name)
        tree = ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))
        made_of = {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level}
        waiting += made_of - read
    assert sum(code_lines(FOLDER / f"{name}.py") for name in read) < MOST_OF_A_CLAIM


def test_commands_certify_and_verify(tmp_path: Path) -> None:
    for stage in ("gpu", "cu"):
        (tmp_path / f"k.{stage}").write_text(sample("layernorm", stage), encoding="utf-8")
    made = run_line(f"tiny-check --certify {tmp_path}/k.cu")
    assert made.code == 0 and made.out == run_line(f"tiny-check --certify {tmp_path}/k.gpu").out
    (tmp_path / "k.cert").write_bytes(made.out)
    for stage in ("gpu", "cu"):
        done = run_line(f"tiny-check --verify {tmp_path}/k.cert {tmp_path}/k.{stage}")
        assert done.code == 0 and done.out.count(b"\ntrusted ") == len(verifier.TRUSTED)


def test_commands_refuse_other_texts(tmp_path: Path) -> None:
    cuda = sample("layernorm", "cu")
    (tmp_path / "k.cert").write_text(certificate("layernorm"), encoding="utf-8")
    (tmp_path / "k.cu").write_text(cuda.replace("768.0f", "767.0f"), encoding="utf-8")
    assert b"E1483" in run_line(f"tiny-check --verify {tmp_path}/k.cert {tmp_path}/k.cu").err
    assert b"E1484" in run_line(f"tiny-check --certify {tmp_path}/k.cu").err
    (tmp_path / "k.plan").write_text(sample("layernorm", "plan"), encoding="utf-8")
    assert b"put tiny-gpu in between" in run_line(f"tiny-check --certify {tmp_path}/k.plan").err


def test_cuda_of_another_text_is_refused_though_its_digest_is_right(tmp_path: Path) -> None:
    changed = sample("layernorm", "cu").replace("768.0f", "767.0f")
    digest = hashlib.sha256(changed.encode()).hexdigest()
    (tmp_path / "k.cu").write_text(changed, encoding="utf-8")
    (tmp_path / "k.cert").write_text(
        re.sub(r"(?m)^cu sha256 .*$", f"cu sha256 {digest}", certificate("layernorm")), encoding="utf-8"
    )
    done = run_line(f"tiny-check --verify {tmp_path}/k.cert {tmp_path}/k.cu")
    assert done.code == 1 and b"E1483" in done.err


def test_what_is_sought_in_vain_is_sought_once_and_from_the_last_corner() -> None:
    kinds = ("sums sought", "pivots")
    before = [work.counts[kind] for kind in kinds]
    Draft(gpu.parse(sample("cumsum", "gpu")))
    sums, pivots = (work.counts[kind] - n for kind, n in zip(kinds, before))
    assert sums <= 1100 and pivots <= 1750  # a tenth more than counted; 2756 and 16194 anew each time
