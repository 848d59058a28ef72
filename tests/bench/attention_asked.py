"""What is asked of attention beside what was measured: `python tests/bench/attention_asked.py FILE.json ...`.

Takes the results of `attention.py` (with `--arch sm80` too), `decode.py` and `models.py`, in any order, and prints a
line for each ask; what no file has is left out. A figure is a rival's time over ours unless it says otherwise, so that
more is better.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench import decode  # noqa: E402
from tests.bench.asked import Row, line, told  # noqa: E402
from tests.bench.attention import ODD_DEPTHS, ODD_LENGTHS, Case  # noqa: E402
from tests.bench.measured import mean  # noqa: E402

NETWORKS = ("gpt2:tokens=1024", "vit:batch=32", "bert:batch=32", "whisper", "llama")
LEAST = {"mean": 0.95, "case": 0.85, "form": 1.0, "odd": 0.95, "decode": 1.0, "sm80": 0.80}
MOST = {"rounded": 1.05, "share": 1.1, "error": 1.1}
COPIED = ((128e6, 0.80), (64e6, 0.70))  # from this number of bytes on, this share of a copy's speed


def of_sweep(rows: list[Row]) -> Iterator[str]:
    """Each dtype, depth and form over all lengths, beside cuDNN."""
    plain = [(Case(**row["case"]), row["ratio"]["cudnn"]) for row in rows if "cudnn" in row["ratio"]]
    plain = [(case, ratio) for case, ratio in plain if case.is_plain and case.heads == case.kv]
    for key in dict.fromkeys((case.dtype, case.depth, case.form) for case, _ in plain):
        found = [ratio for case, ratio in plain if (case.dtype, case.depth, case.form) == key]
        holds = mean(found) >= LEAST["mean"] and min(found) >= LEAST["case"]
        asked = f"mean {LEAST['mean']:.2f}, least {LEAST['case']:.2f} of cuDNN"
        figures = f"{mean(found):.3f}, {min(found):.3f} of {len(found)}"
        yield line(f"{key[0]}, D {key[1]}, {key[2]}", asked, figures, holds)


def of_forms(rows: list[Row]) -> Iterator[str]:
    """Forms beside the best of cuDNN and FlexAttention, FlashAttention 2 where it alone takes one."""
    for row in rows:
        case = Case(**row["case"])
        if case.form in ("full", "causal") or not row["ratio"]:
            continue
        name, ratio = min(row["ratio"].items(), key=lambda item: item[1])
        yield line(case.form, f"{LEAST['form']:.2f} of the best", f"{ratio:.2f} of {name}", ratio >= LEAST["form"])


def of_odd(rows: list[Row]) -> Iterator[str]:
    """Odd lengths and depths beside the size rounded up, and beside cuDNN."""
    us = {Case(**row["case"]): row["us"]["ours"] for row in rows}
    for row in rows:
        case = Case(**row["case"])
        if case.form in ("full", "causal") and (case.length in ODD_LENGTHS or case.depth in ODD_DEPTHS):
            times = us[case] / us[case.rounded] if case.rounded in us else 1.0
            ratio = row["ratio"].get("cudnn", LEAST["odd"])
            asked = f"{MOST['rounded']:.2f} of the time rounded up, {LEAST['odd']:.2f} of cuDNN"
            holds = times <= MOST["rounded"] and ratio >= LEAST["odd"]
            sizes = f"{case.batch} x {case.heads} x {case.length} x {case.depth}, {case.form}"
            yield line(sizes, asked, f"{times:.3f}, {ratio:.2f}", holds)


def of_decode(rows: list[Row]) -> Iterator[str]:
    """One query beside a copy of as many bytes, and beside the faster of cuDNN and FlashAttention 2."""
    for row in rows:
        case = decode.Case(**row["case"])
        if case.queries > 1 or case.room or not row["ratio"]:
            continue
        wanted = next((share for size, share in COPIED if case.bytes >= size), 0.0)
        ratio = min(row["ratio"].values())
        asked = f"{wanted:.2f} of a copy, " * bool(wanted) + f"{LEAST['decode']:.2f} of the best"
        figures = f"{row['share']:.2f}, {ratio:.3f}" if wanted else f"{ratio:.3f}"
        name = f"{case.name}, {case.bytes / 1e6:.0f} MB"
        yield line(name, asked, figures, row["share"] >= wanted and ratio >= LEAST["decode"])


def of_sm80(rows: list[Row]) -> Iterator[str]:
    """sm80's form beside FlashAttention 2."""
    for depth in dict.fromkeys(row["case"]["depth"] for row in rows):
        found = {Case(**row["case"]).name: row["ratio"] for row in rows if row["case"]["depth"] == depth}
        name = min(found, key=found.__getitem__)
        figures = f"{mean(list(found.values())):.2f}, {found[name]:.2f} ({name}) of {len(found)}"
        asked = f"{LEAST['sm80']:.2f} of FlashAttention 2: mean, least"
        yield line(f"sm80's form, D {depth}", asked, figures, found[name] >= LEAST["sm80"])


def of_errors(rows: list[Row]) -> Iterator[str]:
    """Our error against fp64 over the nearest rival's."""
    found = []
    for row in rows:
        theirs = [error for name, error in row["errors"].items() if name not in ("ours", "flex")]
        found += [row["errors"]["ours"] / min(theirs)] if theirs and "ours" in row["errors"] else []
    if found:
        figures = f"{mean(found):.3f} in mean, {max(found):.3f} at most, of {len(found)}"
        asked = f"errors against fp64, times the nearest rival's: {MOST['error']:.1f} at most"
        yield line("errors", asked, figures, max(found) <= MOST["error"])


def of_networks(rows: list[Row]) -> Iterator[str]:
    """The share of attention in each network beside that in torch.compile's, and the time of both."""
    for row in rows:
        ours, theirs = row.get("attention", 0.0), row.get("torch_compile_attention", 0.0)
        if row["network"] not in NETWORKS or not ours or not theirs:
            continue
        us, other = ours * row["graph_us"], theirs * row["torch_compile_graph_us"]
        figures = f"{ours:.3f} and {theirs:.3f}, {ours / theirs:.2f}; {us:.0f} us and {other:.0f}, {us / other:.2f}"
        asked = f"share of attention, {MOST['share']:.1f} of torch's at most"
        yield line(row["network"], asked, figures, ours <= MOST["share"] * theirs)


def lines(rows: list[Row]) -> Iterator[str]:
    """All of them, in the order in which they are asked for."""
    sm80 = [row for row in rows if "held" in row]
    queries = [row for row in rows if "gbs" in row]
    others = [row for row in rows if "case" in row and row not in sm80 and row not in queries]
    for found in (of_sweep(others), of_forms(others), of_odd(others), of_decode(queries), of_sm80(sm80)):
        yield from found
    yield from of_errors(others)
    yield from of_networks([row for row in rows if "network" in row])


if __name__ == "__main__":
    sys.exit(told(__doc__, lines))
