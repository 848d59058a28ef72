"""The C of a program, built with a driver that writes its calls down, and called by a C program that is made for it;
beside it what the program of Python would launch."""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tinyir.host import kernels_of, write_host
from tinyir.host.outline import PARAMETER, POOL, WORKSPACE, Outline, outline_of
from tinyir.host.spelling import Spelt
from tinyir.ir import manifest
from tinyir.ir.evaluate import sizes_of
from tinyir.runtime.arena import Lifetime, pack
from tinyir.runtime.device import Box, Buffer, Scalar
from tinyir.runtime.mapped import DTYPES, SWIZZLES, corners_of
from tinyir.runtime.program import Program

HERE = Path(__file__).parent
STRICT = ("-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-g", "-O1", "-pthread")
ADDRESS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def forms_of(module: manifest.Module) -> dict[str, str]:
    """The parameters of each kernel, as `driver.c` reads them."""
    return {
        launch.entry: "p" * len(launch.tensors) + "m" * len(launch.maps) + "i" * len(launch.symbols) or "-"
        for launch in module.launches
    }


def written(
    folder: Path,
    module: manifest.Module,
    weights: Mapping[str, np.ndarray],
    gpus: Sequence[str] = ("sm_90a",),
    name: str = "program",
) -> Path:
    """The files of a program whose images are what `driver.c` reads; where they are, without a suffix."""
    forms = forms_of(module)
    images = {
        gpu: {e: f"{e} {forms[e]}\n".encode() + bytes(n + 1) for e in kernels_of(module, weights)}
        for n, gpu in enumerate(gpus)
    }
    base = folder / name
    write_host(base, module, images, weights)
    return base


CALLER = """
#include "program.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int left_behind(void);

static NAME_program *program;
static int failed;

static void *room_of(int job, const char *name, size_t bytes) {
  void *room = aligned_alloc(256, (bytes + 255) / 256 * 256 + 256);
  memset(room, 0xff, bytes);
  printf("{\\"room\\": \\"%s\\", \\"job\\": %d, \\"address\\": %" PRIuPTR ", ", name, job, (uintptr_t)room);
  printf("\\"bytes\\": %zu}\\n", bytes);
  return room;
}

struct job {
  int64_t sizes[SIZES + 1];
  uintptr_t stream;
  int number;
};

static void *one(void *given) {
  const struct job *job = given;
  const int64_t *sizes = job->sizes;
  void *rooms[TENSORS + 1];
  void *workspace;
  size_t bytes = 0;
  int fault;
  (void)sizes;
  fault = NAME_workspace_bytes(SIZE_LISTbytes_);
  if (fault) {
    printf("{\\"fault\\": %d, \\"words\\": \\"%s\\"}\\n", fault, NAME_error());
    failed = 1;
    return NULL;
  }
  workspace = room_of(job->number, "workspace", bytes);
ROOMS
RESET
  for (int turn = 0; turn < TURNS; ++turn) {
    fault = NAME_run(program, TENSOR_LISTSIZE_LISTworkspace, (struct CUstream_st *)job->stream);
    if (fault) {
      printf("{\\"fault\\": %d, \\"words\\": \\"%s\\"}\\n", fault, NAME_error());
      failed = 1;
      break;
    }
  }
STATES
  for (int n = 0; n < TENSORS; ++n) free(rooms[n]);
  free(workspace);
  return NULL;
}

int main(int count, char **words) {
  static struct job jobs[256];
  static pthread_t threads[256];
  const int jobs_count = atoi(words[2]), is_threaded = getenv("THREADS") != NULL;
  int fault = NAME_create(words[1], 0, &program);
  (void)count;
  if (fault) {
    printf("{\\"fault\\": %d, \\"words\\": \\"%s\\"}\\n", fault, NAME_error());
    return program != NULL || left_behind() ? 3 : 1;
  }
  puts("{\\"created\\": 1}");
  for (int n = 0; n < jobs_count; ++n) {
    jobs[n].stream = 100 + (uintptr_t)n;
    jobs[n].number = n;
    for (int s = 0; s < SIZES; ++s) jobs[n].sizes[s] = strtoll(words[3 + n * SIZES + s], NULL, 10);
    if (is_threaded) pthread_create(&threads[n], NULL, one, &jobs[n]);
    else one(&jobs[n]);
  }
  for (int n = 0; n < jobs_count && is_threaded; ++n) pthread_join(threads[n], NULL);
  NAME_destroy(program);
  NAME_destroy(NULL);
  return left_behind() ? 3 : failed;
}
"""


def caller_of(outline: Outline, turns: int) -> str:
    """A C program that creates the program, runs it for each set of sizes in its arguments, each on a thread of its own
    where THREADS is set, and gives everything back."""
    name = Spelt(outline).name
    sizes = "".join(f"sizes[{n}], " for n in range(len(outline.symbols)))
    rooms, states = [], []
    for n, t in enumerate(outline.parameters):
        text = " * ".join(
            [f"(int64_t){t.type.dtype.bytes}", *(f"({_in_c(e, outline)})" for e in outline.shapes[t.name])]
        )
        rooms.append(f'  rooms[{n}] = room_of(job->number, "{n}", (size_t)({text}));')
        if t.name in outline.states:
            states.append(f'  printf("{{\\"state\\": %d, \\"first\\": %d}}\\n", {n}, *(unsigned char *)rooms[{n}]);')
    reset = ""
    if outline.states:
        places = [n for n, t in enumerate(outline.parameters) if t.name in outline.states]
        reset = f"  if (NAME_reset(program, {', '.join(f'rooms[{n}]' for n in places)}, NULL)) failed = 1;"
    filled = {
        "RESET": reset,
        "STATES": "\n".join(states),
        "NAME": name,
        "ROOMS": "\n".join(rooms),
        "TENSOR_LIST": "".join(f"rooms[{n}], " for n in range(len(outline.parameters))),
        "SIZE_LISTbytes_": f"{sizes}&bytes",
        "SIZE_LIST": sizes,
        "TURNS": str(turns),
    }
    text = CALLER
    for word, found in filled.items():
        text = text.replace(word, found)
    return f"#define SIZES {len(outline.symbols)}\n#define TENSORS {len(outline.parameters)}\n{text}"


def _in_c(expr: Any, outline: Outline) -> str:
    from tinyir.host.expressions import c_of

    names = {s: f"sizes[{n}]" for n, s in enumerate(outline.symbols)}
    return c_of(expr, names.__getitem__).replace("floor_div(", "FLOOR_DIV(")


def built(base: Path, outline: Outline, turns: int = 1, flags: Sequence[str] = ADDRESS) -> Path:
    """The caller with the program and the driver, compiled without a warning."""
    main, out = base.with_name("main.c"), base.with_name("main")
    main.write_text("#define FLOOR_DIV(a, b) ((a) / (b) - ((a) % (b) < 0))\n" + caller_of(outline, turns))
    command = ["cc", *STRICT, *flags, f"-I{HERE}", "-o", str(out), str(main), f"{base}.c", str(HERE / "driver.c")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=base.parent)
    assert done.returncode == 0, done.stderr
    return out


def built_gpt2(base: Path, tokens: int, words: int, flags: Sequence[str]) -> Path:
    """`gpt2.c` with the program at `base`, compiled without a warning; `flags` say which driver, and where its header
    is."""
    out = base.with_name("gpt2")
    sizes = (f"-DTOKENS={tokens}", f"-DWORDS={words}", f"-I{base.parent}")
    command = ["cc", *STRICT, *sizes, "-o", str(out), str(HERE / "gpt2.c"), f"{base}.c", *flags]
    done = subprocess.run(command, capture_output=True, text=True, cwd=base.parent)
    assert done.returncode == 0, done.stderr
    return out


def continued(main: Path, count: int, ids: Sequence[int]) -> tuple[list[str], list[int], np.ndarray]:
    """What `gpt2.c` says before the last line, the ids with `count` more, and the last logits, one after the other."""
    words = [str(main), "program.data", "logits", str(count), *map(str, ids)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=main.parent)
    assert (done.returncode, done.stderr) == (0, "")
    *told, found = done.stdout.splitlines()
    return told, [int(word) for word in found.split()], np.fromfile(main.with_name("logits"), np.float32)


@dataclass
class Told:
    """What a run of the caller wrote: the launches while it was created, then those of the runs; rooms by stream."""

    code: int
    once: list[dict[str, Any]]
    launches: list[dict[str, Any]]
    rooms: list[dict[str, Any]]
    faults: list[dict[str, Any]]
    states: list[dict[str, Any]]
    pools: list[dict[str, Any]]
    stderr: str


def called(
    main: Path, sizes: Sequence[Sequence[int]], environment: Mapping[str, str] | None = None, data: str = "program.data"
) -> Told:
    """Run the caller with each of the sets of sizes."""
    words = [str(main), data, str(len(sizes)), *(str(n) for one in sizes for n in one)]
    done = subprocess.run(
        words, capture_output=True, text=True, cwd=main.parent, env={**os.environ, **(environment or {})}, timeout=60
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    at = next((n for n, line in enumerate(lines) if "created" in line), len(lines))
    found = {key: [x for x in lines if key in x] for key in ("room", "fault", "state", "alloc")}
    return Told(
        done.returncode, [x for x in lines[:at] if "kernel" in x], [x for x in lines[at:] if "kernel" in x],
        found["room"], found["fault"], found["state"], found["alloc"], done.stderr,
    )  # fmt: skip


# --- what Python launches


class Paper:
    """A device that packs memory as a GPU does, gives out addresses and runs nothing."""

    name, description, is_packed, can_replay = "paper", "paper", True, False

    def __init__(self) -> None:
        self.at = 1 << 20

    def takes(self, arch: str) -> bool:
        """A Hopper."""
        return int(arch.removeprefix("sm")) <= 90

    def takes_maps(self) -> bool:
        """It does."""
        return True

    def load(self, *_: Any) -> None:
        """Nothing."""

    def allocate(self, name: str, count: int, item: int, alignment: int = 256) -> Buffer:
        """A place that no other has."""
        self.at += -(-(count * item + 1) // 4096) * 4096
        return Buffer(name, self.at, count, item, self.at)

    def upload(self, *_: Any, **__: Any) -> None:
        """Nothing."""


def in_python(
    module: manifest.Module, weights: Mapping[str, np.ndarray], sizes: Mapping[str, int]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], Program]:
    """The launches that are made once, and those of a run, with the names of tensors in the place of addresses."""
    device = Paper()
    kept = {t.name: device.allocate(t.name, 1, 1) for t in module.region.model.inputs if t.name in weights}
    program = Program(device, "", module, sizes, kept, code="")
    owners = outline_of(module, weights).owners
    # each at an address of its own, so that what shares a place is told apart
    apart = {n: Buffer(n, (k + 1) << 8, 1, b.item, 0) for k, (n, b) in enumerate(sorted(program.buffers.items()))}
    names = {b.address: owners[n] for n, b in apart.items()}

    def told(launch: manifest.Launch, is_early: bool) -> dict[str, Any]:
        b = program._bind(launch, apart)
        arguments = [
            a.value if isinstance(a, Scalar) else [names[a.address]] if isinstance(a, Buffer) else drawn(a)
            for a in b.arguments
        ]
        return {
            "kernel": b.kernel, "grid": [*b.grid], "block": [*b.block, 1, 1][:3], "shared": b.shared,
            "early": int(is_early), "arguments": arguments,
        }  # fmt: skip

    def drawn(box: Box) -> dict[str, Any]:
        sides, rank = box.box[::-1], len(box.dims)
        low, high = corners_of(box) if box.windows is not None else ((), ())
        return {
            "windows": int(box.windows is not None), "type": DTYPES[box.dtype], "swizzle": SWIZZLES[box.swizzle],
            "address": [names[box.buffer.address]], "dims": [*box.dims[::-1]],
            "box": [sides[0], sides[-1]] if box.windows is not None else [*sides],
            "steps": [1, *box.windows.steps[::-1], 1] if box.windows is not None else [1] * rank,
            "corners": [a + 1000 * b for a, b in zip(low[::-1], high[::-1])] or [0] * max(rank - 2, 0),
        }  # fmt: skip

    once = [told(launch, False) for launch in program._once]
    runs = [told(launch, launch.is_early and launch is not program.made[0]) for launch in program.made]
    return once, runs, program


def places_of(outline: Outline, program: Program) -> dict[str, int]:
    """Where each tensor should be in the workspace: by the arena of Python, for the launches that it makes."""
    made = {launch.name for launch in (*program.made, *program._once)}
    spans: dict[str, tuple[int, int]] = {}
    for number, launch in enumerate(x for x in outline.launches if not x.is_kept and x.name in made):
        for name in outline.touches(launch):
            first = -1 if outline.places[name].value is not None else number
            spans[name] = (spans.get(name, (first, first))[0], number)
    lives = [
        Lifetime(p.name, math.prod(sizes_of(p.shape, program.sizes)) * p.item, *spans[p.name])
        for p in outline.workspace
        if p.name in spans
    ]
    return pack(lives)[0]


def resolved(told: Any, place: Any) -> Any:
    """A launch with `place` of each address in its place."""
    if isinstance(told, dict):
        found = {k: resolved(v, place) for k, v in told.items() if k not in ("address", "stream")}
        return found | ({"address": place(*_one(told["address"]))} if "address" in told else {})
    if isinstance(told, list):
        return [place(*a) if isinstance(a, list) else resolved(a, place) if isinstance(a, dict) else a for a in told]
    return told


def _one(address: Any) -> tuple[Any, ...]:
    return tuple(address) if isinstance(address, list) else (address,)


def same(
    told: Told,
    module: manifest.Module,
    weights: Mapping[str, np.ndarray],
    sizes: Mapping[str, int],
    job: int = 0,
    turns: int = 1,
) -> None:
    """The launches of one job in C are those of Python, in order, with the same sizes, maps, memory and attributes."""
    outline = outline_of(module, weights)
    once, runs, program = in_python(module, weights, sizes)
    places = places_of(outline, program)
    pool = next((x["alloc"] for x in told.pools), 0)
    own = [x for x in told.rooms if x["job"] == job]
    rooms = {x["address"]: x["room"] for x in own}
    ends = {x["address"]: x["address"] + x["bytes"] for x in own}
    parameters = {t.name: str(n) for n, t in enumerate(outline.parameters)}

    def in_c(address: int) -> tuple[str, int]:
        for start, room in rooms.items():
            if start <= address <= ends[start]:
                return room, address - start
        assert pool <= address < pool + max(outline.pool_bytes, 1)
        return "pool", address - pool

    def here(name: str) -> tuple[str, int]:
        place = outline.places[name]
        if place.where == PARAMETER:
            return parameters[name], 0
        return ("pool", place.offset) if place.where == POOL else (WORKSPACE, places[name])

    kept = [launch.entry for launch in outline.launches if launch.is_kept]
    ours = [resolved(x, in_c) for x in told.once]
    assert [x["kernel"] for x in ours] == kept
    per_run = [resolved(x, here) for x in once if x["kernel"] not in kept]
    expected_once = [resolved(x, here) for x in once if x["kernel"] in kept]
    assert all(x in ours for x in expected_once)
    theirs = [resolved(x, here) for x in runs]
    if per_run and theirs:
        theirs[0]["early"] = theirs[0]["early"] or int(
            next(launch.is_early for launch in outline.launches if launch.entry == theirs[0]["kernel"])
        )
    launches = [x for x in told.launches if x["stream"] == 100 + job]
    assert [resolved(x, in_c) for x in launches] == [*per_run, *theirs] * turns
