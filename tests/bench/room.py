"""A decoder whose caches have room (`tinyir.compile(..., room=N)`), over the lengths that it comes by, on one card.

    python tests/bench/room.py [--out room.json] [--models DIR]
                                                       measure; needs a GPU, PyCUDA, and onnx where no folder has them
    python tests/bench/room.py --emit DIR              only write the models as front-end JSON
    python tests/bench/room.py --plans                 only print what is planned for room and for each length alone

One program runs at all lengths. At some of them its kernels are timed as a CUDA graph beside those of a program that
was made for this length alone, in turns, each from a cold L2 cache, medians; the numbers of both are compared. Then
tokens are counted: what a call takes at lengths that are new at each call, and what it took where each length had a
program of its own (the host's work, of which a GPU knows nothing).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.card import card_here  # noqa: E402

HEADS, SHARED, DEPTH, LAYERS = 32, 8, 128, 2
ROOM = 8192
BATCHES = (1, 8)
LENGTHS = (511, 1000, 2047, 4095, 6000, 8191)
TOKENS = 64
NEAR = 4e-3


def decoder(batch: int, layers: int = LAYERS) -> bytes:
    """Layers of attention of one new token, each with a cache of one row more, as exporters write it."""
    from onnx import TensorProto, helper, numpy_helper

    node, half = helper.make_node, TensorProto.FLOAT16
    past, new = "past", "past + 1"
    nodes, inputs, outputs = [], {"q": [batch, HEADS, 1, DEPTH]}, {"y": [batch, HEADS, 1, DEPTH]}
    groups = {"five": [batch, SHARED, HEADS // SHARED, -1, DEPTH], "four": [batch, HEADS, -1, DEPTH]}
    held = {name: np.array(shape) for name, shape in groups.items()} | {"axes": np.array([2])}
    held |= {"repeat": np.array([1, 1, HEADS // SHARED, 1, 1]), "scale": np.float16([DEPTH**-0.5])}
    inputs["mask"] = [batch, 1, 1, new]
    query = "q"
    for n in range(layers):
        for name in ("key", "value"):
            old, row, now = (f"{word}.{n}.{name}" for word in ("past_key_values", "new", "present"))
            inputs |= {old: [batch, SHARED, past, DEPTH], row: [batch, SHARED, 1, DEPTH]}
            outputs[now] = [batch, SHARED, new, DEPTH]
            nodes += [
                node("Concat", [old, row], [now], axis=2),
                node("Unsqueeze", [now, "axes"], [f"{now}.5"]),
                node("Expand", [f"{now}.5", "repeat"], [f"{now}.all"]),
                node("Reshape", [f"{now}.all", "four"], [f"{now}.heads"]),
            ]
        key, value = (f"present.{n}.{name}.heads" for name in ("key", "value"))
        nodes += [
            node("Transpose", [key], [f"kt{n}"], perm=[0, 1, 3, 2]),
            node("MatMul", [query, f"kt{n}"], [f"s{n}"]),
            node("Mul", [f"s{n}", "scale"], [f"c{n}"]),
            node("Add", [f"c{n}", "mask"], [f"m{n}"]),
            node("Softmax", [f"m{n}"], [f"p{n}"], axis=-1),
            node("MatMul", [f"p{n}", value], ["y" if n == layers - 1 else f"y{n}"]),
        ]
        query = f"y{n}"
    sides = [[helper.make_tensor_value_info(n, half, s) for n, s in side.items()] for side in (inputs, outputs)]
    weights = [numpy_helper.from_array(a, n) for n, a in held.items() if n != "five"]
    graph = helper.make_graph(nodes, "decoder", *sides, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def states_of(layers: int = LAYERS) -> list[str]:
    """The caches."""
    return [f"past_key_values.{n}.{name}" for n in range(layers) for name in ("key", "value")]


def model_of(batch: int, folder: Path | None) -> str:
    """The decoder with room as front-end JSON."""
    from tinyir import front

    if folder is not None:
        return (folder / f"decoder_{batch}.json").read_text(encoding="utf-8")
    return front.onnx_to_json(decoder(batch), "decoder.onnx", {}, {}, Path(), {}, ROOM)


def planned(text: str, past: int | None = None) -> Any:
    """The module with its plans: those of a cache with room, or those for one length."""
    from tinyir import front
    from tinyir.ir.pipeline import STAGES
    from tinyir.lower import lower_to

    found = json.loads(text)
    if past is not None:
        found["shape_sets"] = {"one": {"past": past}}
    module: Any = front.read(json.dumps(found), "decoder.json")
    for stage in STAGES[1 : STAGES.index("plan") + 1]:
        module = lower_to(stage, module, "sm90", card_here())
    return module


def emitted(text: str, past: int) -> str:
    """The CUDA text for one length."""
    from tinyir.ir import manifest
    from tinyir.lower import cu, gpu

    return manifest.show(cu.lower(gpu.lower(planned(text, past))))


def told(module: Any) -> str:
    """The plans of attention, in short."""
    return "; ".join(f"{p.algo} {list(p.tile)}" for p in module.plans if len(p.regions) == 2)


def inputs_of(batch: int, past: int, seed: int = 0) -> dict[str, np.ndarray]:
    """What a step at this length is given; of the mask a few columns are hidden."""
    draw = np.random.default_rng(seed + past)
    rows = [f"new.{n}.{name}" for n in range(LAYERS) for name in ("key", "value")]
    found = {name: draw.standard_normal((batch, SHARED, 1, DEPTH)).astype(np.float16) for name in rows}
    found["q"] = draw.standard_normal((batch, HEADS, 1, DEPTH)).astype(np.float16)
    found["mask"] = np.where(draw.random((batch, 1, 1, past + 1)) < 0.05, -np.inf, 0.0).astype(np.float16)
    return found


def measure_batch(batch: int, model: str) -> list[dict[str, Any]]:
    """A row for each length, and one for tokens at lengths that are new at each call."""
    import tinyir
    from tests.bench.gemm import timed
    from tinyir.ir import manifest
    from tinyir.runtime.graph import Graph
    from tinyir.runtime.program import Program

    rows: list[dict[str, Any]] = []
    draw = np.random.default_rng(1)
    first = draw.standard_normal((batch, SHARED, ROOM, DEPTH)).astype(np.float16)
    with tinyir.compile(model, device="cuda", params=dict.fromkeys(states_of(), first)) as program:
        session = program._session
        device = session._device

        def tokens(count: int, start: int, forgets: bool) -> float:
            """Microseconds of a call."""
            found = []
            for past in range(start, start + count):
                arrays = inputs_of(batch, past)
                if forgets:
                    for held in session._programs:
                        held.release()
                    session._programs.clear()
                begin = time.perf_counter()
                program(**arrays)
                found.append(time.perf_counter() - begin)
            return 1e6 * statistics.median(found[4:])

        calls = {"one program": tokens(TOKENS, 64, False), "one a length": tokens(TOKENS, 64, True)}
        rows.append({"batch": batch, "tokens": TOKENS, "us a call": calls, "plans": told(planned(model))})
        for past in LENGTHS:
            arrays = inputs_of(batch, past)
            ours = program(**arrays)["y"]  # run again, a step writes the same rows
            held = session._programs[-1]
            kept = {**session._pool, **session.states.buffers()}
            text = emitted(model, past)
            alone = Program(device, text, manifest.parse(text), {"past": past}, kept=kept)
            alone.upload({name: np.ascontiguousarray(array) for name, array in arrays.items()})
            alone.run()
            other = alone.outputs([t for t in alone.model.outputs if t.name == "y"])["y"]
            held.run(session.states.buffers())
            graphs = [Graph(device.stream.handle, one.enqueue) for one in (held, alone)]
            mine, theirs = timed(device, [graph.run for graph in graphs], 15)
            apart = float(np.abs(ours.astype(np.float64) - other.astype(np.float64)).max())
            row = {
                "batch": batch,
                "past": past,
                "us": {"one program": mine, "made for the length": theirs},
                "ratio": mine / theirs,
                "apart": apart,
                "programs": len(session._programs),
                "plans alone": told(planned(model, past)),
            }
            rows.append(row)
            print(json.dumps(row), flush=True)
            for graph in graphs:
                graph.release()
            alone.release()
    print(json.dumps(rows[0]), flush=True)
    return rows


def main() -> int:
    """Print plans, or measure; exit code 1 where numbers are apart, or there is more than one program."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--plans", action="store_true")
    parser.add_argument("--emit", type=Path)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--out", type=Path, default=Path("room.json"))
    args = parser.parse_args()
    models = {batch: model_of(batch, args.models) for batch in BATCHES}
    if args.emit:
        for batch, text in models.items():
            (args.emit / f"decoder_{batch}.json").write_text(text, encoding="utf-8")
        return 0
    if args.plans:
        for batch, text in models.items():
            print(batch, "room", told(planned(text)), flush=True)
            for past in LENGTHS:
                print(batch, past, told(planned(text, past)), flush=True)
        return 0
    rows = [row for batch, text in models.items() for row in measure_batch(batch, text)]
    args.out.write_text(json.dumps({"room": ROOM, "rows": rows}, indent=1), encoding="utf-8")
    return int(any(row.get("apart", 0) > NEAR or row.get("programs", 1) > 1 for row in rows))


if __name__ == "__main__":
    sys.exit(main())
