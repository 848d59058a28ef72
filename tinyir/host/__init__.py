"""A program without Python: one C file, its header, and a file of kernels and weights.

    mlp.h       what a caller reads: mlp_create, mlp_workspace_bytes, mlp_run, mlp_destroy, mlp_error
    mlp.c       the launches of the manifest, in C11 and calls of the CUDA driver
    mlp.data    cubins, weights and constants, loaded by mlp_create

`outline` decides what is to be written; `header` and `source` write it; `support.c` is what all programs have.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import numpy as np

from ..ir import manifest
from ..kit.files import write_whole
from ..runtime.arena import line_up
from .header import header_of
from .outline import Outline, outline_of
from .source import Files, Target, source_of
from .spelling import Spelt

HEAD = 64  # bytes of the data file before the first image
_MAGIC = "tinyir host 1 "


def write_host(
    base: Path,
    module: manifest.Module,
    images: Mapping[str, Mapping[str, bytes]],
    weights: Mapping[str, np.ndarray],
) -> tuple[Path, ...]:
    """Write BASE.h, BASE.c and BASE.data, and give their paths. `images` are the cubins by entry, for each kind of GPU
    (`sm_90a`) that the program shall run on; `weights` are the arrays that go into the file. Raises Refused (E0009 one
    cannot be written, E1702 to E1706 arrays that are not the signature's)."""
    outline = outline_of(module, weights)
    spelt = Spelt(outline)
    files, content = _files(outline, images)
    unsigned = source_of(outline, spelt, files, "")
    digest = sha256(unsigned.encode())
    for part in content:
        digest.update(part)
    identity = _MAGIC + digest.hexdigest()[:32]
    names = ", ".join(t.arch for t, _ in files.targets)
    source = source_of(outline, spelt, files, identity).replace(
        f'#include "{spelt.name}.h"', f'#include "{base.name}.h"'
    )
    paths = tuple(base.with_name(base.name + suffix) for suffix in (".h", ".c", ".data"))
    write_whole(paths[0], header_of(outline, spelt, names).encode())
    write_whole(paths[1], source.encode())
    write_whole(paths[2], identity.encode().ljust(HEAD, b"\0"), *content)
    return paths


def kernels_of(module: manifest.Module, weights: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    """The entries that some sizes launch: what has to be compiled."""
    return tuple(outline_of(module, weights).kernels)


def _files(outline: Outline, images: Mapping[str, Mapping[str, bytes]]) -> tuple[Files, list[bytes]]:
    """Where everything is in the data file, and its parts behind the head."""
    entries = list(outline.kernels)
    groups: dict[tuple[bytes, ...], int] = {}  # kernels that share an image on every GPU
    image_of = {entry: groups.setdefault(tuple(of[entry] for of in images.values()), len(groups)) for entry in entries}
    at, targets, content = HEAD, [], []
    for n, arch in enumerate(images):
        found = tuple(group[n] for group in groups)
        targets.append((Target(arch, found), at))
        content += found
        at += sum(map(len, found))
    offsets, end = line_up((str(n), a.nbytes) for n, a in enumerate(outline.pool))
    raw = [np.ascontiguousarray(a).reshape(-1).view(np.uint8) for a in outline.pool]
    starts = [*(offsets[str(n)] for n in range(len(raw))), end]
    for part, start, following in zip(raw, starts, starts[1:]):
        content += [part.tobytes(), bytes(following - start - part.nbytes)]
    return Files(tuple(targets), image_of, at), content
