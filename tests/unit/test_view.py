"""Pictures: DOT of any stage, and the page, which a browser opens without a complaint."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tinyir.ir.pipeline import STAGES
from tinyir.lower import language_of
from tinyir.view.graph import graph_of
from tinyir.view.page import words_in

from ..commands import ROOT, run_line
from ..japanese import english_in
from ..models import gpt2, resnet50

SAMPLES = sorted((ROOT / "samples").glob("*/*.tiny"))
TEXTS = [f.with_suffix(f".{stage}") for f in SAMPLES for stage in ("json", *STAGES)]
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
NODE = re.compile(r'^ +"((?:[^"\\]|\\.)*)" \[label="', re.M)
EDGE = re.compile(r'^ +"((?:[^"\\]|\\.)*)" -> "((?:[^"\\]|\\.)*)"', re.M)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda f: f.stem)
@pytest.mark.parametrize("stage", STAGES)
def test_a_graph_has_what_the_text_has(sample: Path, stage: str) -> None:
    """Every edge joins nodes that there are, and every output is reached."""
    module = language_of(stage).parse(sample.with_suffix(f".{stage}").read_text(encoding="utf-8"))
    graph = graph_of(stage, module)
    ids = [node.id for node in graph.nodes]
    assert len(set(ids)) == len(ids)
    assert {end for edge in graph.edges for end in (edge.source, edge.target)} <= set(ids)
    assert {n.id for n in graph.nodes if n.kind == "output"} <= {e.target for e in graph.edges}
    if stage in ("tiny", "index"):
        tiny = module if stage == "tiny" else module.tiny
        assert sum(n.kind in ("value", "movement", "constant") for n in graph.nodes) == len(tiny.values)
        assert len(graph.edges) == sum(len(v.operands) for v in tiny.values) + len(tiny.results)


@pytest.mark.parametrize("stage", ["json", *STAGES])
def test_dot_says_the_graph(stage: str) -> None:
    done = run_line(f"tiny-dot samples/mlp/mlp.{stage}")
    text = done.out.decode()
    assert done.code == 0 and text.startswith('digraph "mlp" {') and text.endswith("}\n")
    nodes = NODE.findall(text)
    assert nodes and {end for edge in EDGE.findall(text) for end in edge} <= set(nodes)


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS, ids=lambda f: f.name)
def test_graphviz_takes_it(text: Path, tmp_path: Path) -> None:
    """Where it is installed; what it would take is what `test_dot_says_the_graph` reads."""
    done = run_line(f"tiny-dot {text}")
    assert done.code == 0
    if dot := shutil.which("dot"):
        drawn = subprocess.run([dot, "-Tsvg"], input=done.out, capture_output=True)
        assert (drawn.returncode, drawn.stderr) == (0, b"")


def data_of(page: str) -> dict[str, Any]:
    """The data in a page."""
    packed = re.search(r'<script id="data" type="text/plain">([^<]*)</script>', page)
    assert packed is not None
    return json.loads(zlib.decompress(base64.b64decode(packed[1])))


def test_a_page_needs_nothing_else_and_holds_every_stage() -> None:
    page = run_line("tiny-view samples/mlp/mlp.json").out.decode()
    data = data_of(page)
    assert [s["stage"] for s in data["stages"]] == list(STAGES)
    for one in data["stages"]:
        assert one["text"] == (ROOT / "samples" / "mlp" / f"mlp.{one['stage']}").read_text(encoding="utf-8")
    assert data["source"] == (ROOT / "samples" / "mlp" / "mlp.json").read_text(encoding="utf-8")
    assert not re.search(r"""(src|href)=["']|@import|url\(|https?://(?!www\.w3\.org)""", page.split("/* dagre")[0])
    assert "@" + "DATA" + "@" not in page and "Chris Pettitt" in page
    assert data.pop("words") == {} and data == json.loads(run_line("tiny-view --json samples/mlp/mlp.json").out)


def test_the_data_of_a_page_are_those_of_the_program() -> None:
    data = json.loads(run_line("tiny-view --json samples/mlp/mlp.json").out)
    assert {n["label"]: n["line"] for n in data["graph"]["nodes"] if n["kind"] == "op"} == {
        "up": 23,
        "gelu": 24,
        "down": 25,
    }
    up, down = data["regions"]
    assert (up["ops"], down["ops"]) == (["up", "gelu"], ["down"])
    assert [(v["source"], v["rule"]) for v in up["apart"]] == [(v["source"], v["rule"]) for v in down["apart"]] != []
    for launch in data["launches"]:
        assert launch["flops"] > 0 and 0 < launch["limit_us"] < launch["estimate_us"]
        assert launch["limited_by"] == "compute" and launch["measured_us"] is None
    (buffer,) = data["memory"]["buffers"]
    assert (buffer["name"], buffer["bytes"], buffer["first"], buffer["last"]) == ("H", 2048 * 3072 * 2, 0, 1)
    assert data["memory"]["total"] >= buffer["bytes"]


def test_texts_are_shown_as_they_are(tmp_path: Path) -> None:
    trace = tmp_path / "t.json"
    trace.write_text(json.dumps({"traceEvents": [{"name": "up", "cat": "launch", "dur": 12.5}]}), encoding="utf-8")
    line = f"tiny-view --json --measured {trace} samples/mlp/mlp.region samples/mlp/mlp.plan"
    data = json.loads(run_line(line).out)
    assert [s["stage"] for s in data["stages"]] == ["region", "plan"]
    assert data["graph"] is None and data["memory"] is None
    assert {one["name"]: one["measured_us"] for one in data["launches"]} == {"up": 12.5, "down": None}
    again = run_line("tiny-view --diag=json samples/mlp/mlp.plan samples/mlp/mlp.plan")
    assert (again.code, json.loads(again.err)["diagnostics"][0]["code"]) == (1, "E0017")
    assert run_line(f"tiny-view --measured {tmp_path} samples/mlp/mlp.plan").code == 1


WAIT = "while (!document.body.dataset.ready) await new Promise((r) => setTimeout(r, 20));"
CLICKS = """
  const node = [...document.querySelectorAll('.node')].find((n) => n.getAttribute('aria-label') === NAME);
  node.dispatchEvent(new MouseEvent('click', {bubbles: true}));
  const detail = document.getElementById('detail').textContent;
  document.getElementById('show-texts').click();
  await new Promise((r) => setTimeout(r, 50));
  const hits = {};
  for (const column of document.querySelectorAll('.column'))
    hits[column.dataset.stage] = [...column.querySelectorAll('.line.hit, .line.near')].map((l) => l.textContent);
  const span = document.querySelector('.column[data-stage=tiny] .line.hit span:not(.hit)') ;
  if (span) span.click();
  const tabs = [];
  for (const key of '123456') { document.dispatchEvent(new KeyboardEvent('keydown', {key})); tabs.push(page.tab); }
  document.dispatchEvent(new KeyboardEvent('keydown', {key: 'd'}));
  return {detail, hits, picked: page.picked, tabs, isDark: document.documentElement.classList.contains('dark')};
"""


def opened(page: str, name: str, folder: Path) -> tuple[dict[str, Any], list[str]]:
    """What a browser shows after a click on the op `name`, and what its console says."""
    script = (
        f"<script>(async () => {{ const NAME = {json.dumps(name)}; {WAIT}\n"
        f"const said = await (async () => {{ {CLICKS} }})();\n"
        "const made = document.createElement('pre'); made.id = 'said'; made.textContent = JSON.stringify(said);"
        "document.body.append(made); })()</script></body>"
    )
    file = folder / "page.html"
    file.write_text(page.replace("</body>", script), encoding="utf-8")
    done = subprocess.run(
        [
            *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1500,950"),
            *("--virtual-time-budget=20000", "--enable-logging=stderr", "--dump-dom", file.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    said = re.search(r'<pre id="said">(.*?)</pre>', done.stdout, re.S)
    assert said is not None, done.stderr[-2000:]
    import html

    return json.loads(html.unescape(said[1])), [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.slow
@pytest.mark.parametrize(("model", "name"), [
    (resnet50(dtype="fp16"), "s2.b1.middle.conv"),
    (gpt2(dtype="fp16"), "l3.attention"),
], ids=["resnet50", "gpt2"])  # fmt: skip
def test_a_browser_opens_the_page_of_a_network(model: Any, name: str, tmp_path: Path) -> None:
    """Where there is a browser: a click on an op shows it from the model's line to the lines of CUDA."""
    source = tmp_path / f"{model.name}.json"
    source.write_text(model.text, encoding="utf-8")
    done = run_line(f"tiny-view {source}")
    assert done.code == 0 and len(done.out) < 2_000_000
    if CHROMIUM is None:
        return
    said, console = opened(done.out.decode(), name, tmp_path)
    assert console == []
    assert name in said["detail"] and "launch" in said["detail"]
    assert all(said["hits"][stage] for stage in ("model", "tiny", "region", "plan", "gpu", "cu")), said["hits"]
    assert f'"{name}"' in said["hits"]["model"][0]
    assert said["tabs"] == ["graph", "regions", "memory", "plan", "texts", "passes"]
    assert said["picked"] and isinstance(said["isDark"], bool)


def said_in(script: str) -> Iterator[str]:
    """The words of each say`...` of a script: values are {0}, {1}, as the script itself counts them."""
    at = 0
    while (at := script.find("say`", at)) >= 0:
        at += len("say`")
        words, count, place = "", 0, at
        while script[place] != "`":
            if script.startswith("${", place):
                words += f"{{{count}}}"
                count, depth, place = count + 1, 1, place + 2
                while depth:
                    depth += {"{": 1, "}": -1}.get(script[place], 0)
                    place += 1
            else:
                words, place = words + script[place], place + 1
        yield words


def test_every_word_of_the_page_is_in_japanese() -> None:
    folder = ROOT / "tinyir" / "view" / "assets"
    script = "\n".join((folder / f"{name}.js").read_text(encoding="utf-8") for name in ("graph", "charts", "view"))
    code = "\n".join(line for line in script.splitlines() if not line.startswith("//"))
    said = {*said_in(code), *re.findall(r'data-say="([^"]*)"', (folder / "view.html").read_text(encoding="utf-8"))}
    table = words_in("ja")
    assert sorted(said) == sorted(table) and words_in("en") == {}
    for english, japanese in table.items():
        assert sorted(re.findall(r"\{\d\}", english)) == sorted(re.findall(r"\{\d\}", japanese))
        assert english_in(re.sub(r"\{\d\}|\bus\b|TFLOP/s|\(t\)", "", japanese)) == [], japanese


def test_a_page_in_japanese_has_its_words() -> None:
    page = run_line("tiny-view samples/softmax/softmax.json --lang ja").out.decode()
    data = data_of(page)
    assert data["lang"] == "ja" and data["words"]["Graph"] == "グラフ"
    assert data_of(run_line("tiny-view samples/softmax/softmax.json --lang en").out.decode())["words"] == {}


@pytest.mark.slow
def test_a_browser_shows_the_page_in_japanese(tmp_path: Path) -> None:
    """Where there is a browser: no English in what the page itself says."""
    if CHROMIUM is None:
        return
    page = run_line("tiny-view samples/mlp/mlp.json --lang ja").out.decode()
    said, console = opened(page, "up", tmp_path)
    assert console == [] and all(word in said["detail"] for word in ("リージョン", "起動", "限界"))


def test_a_notebook_shows_a_program(tmp_path: Path) -> None:
    import tinyir

    with tinyir.compile((ROOT / "samples" / "mlp" / "mlp.json").read_text(encoding="utf-8"), device="cpu") as program:
        table = program._repr_html_()
        assert "<code>X</code>" in table and "fp16[M, 768]" in table and "<td>down</td>" in table
        page = program.view()
        page.save(tmp_path / "view.html")
    data = data_of((tmp_path / "view.html").read_text(encoding="utf-8"))
    assert [one["name"] for one in data["launches"]] == ["up", "down"] and data["memory"]["buffers"][0]["name"] == "H"
    assert page._repr_html_().startswith("<iframe srcdoc=") and "<script>" not in page._repr_html_()


def test_passes_are_shown_before_and_after() -> None:
    """Those of the canonical form, and the rewrites of regions; what they do not change is left out."""
    data = json.loads(run_line("tiny-view --json samples/attention_causal/attention_causal.json").out)
    found = {one["name"]: one for one in data["passes"]}
    assert {"compose_movement (tiny-opt --canonical)", "share_values: region attention"} <= set(found)
    assert all(one["before"] != one["after"] for one in data["passes"])
    assert found["share_values: region attention"]["after"].startswith("region attention\n")
