"""What the makers of archives have in common: what torch.export writes, without what is not the model's, beside arrays
of torch's own, as one archive of archives."""

from __future__ import annotations

import argparse
import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

Files = dict[str, bytes]  # the files of one program, by what is behind its name


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Numbers of a normal distribution, apart from 0 and from halves."""
    return torch.randn(*shape).to(dtype)


def whole(*shape: int, low: int = -9, high: int = 9, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """Whole numbers."""
    return torch.randint(low, high, shape).to(dtype)


def distinct(*shape: int) -> torch.Tensor:
    """Numbers of which no two are equal."""
    count = int(np.prod(shape))
    return (torch.randperm(count).float() - count / 2 + 0.25).reshape(shape) / 3


class Wrapped(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def trimmed(raw: bytes) -> bytes:
    """An archive without what is not the model's: sample inputs, and the source lines of each node."""
    given, made = zipfile.ZipFile(io.BytesIO(raw)), io.BytesIO()
    with zipfile.ZipFile(made, "w") as out:
        for info in given.infolist():
            if "/data/sample_inputs/" in info.filename:
                continue
            body = given.read(info)
            if info.filename.endswith("/models/model.json"):
                model = json.loads(body)
                for node in model["graph_module"]["graph"]["nodes"]:
                    node["metadata"] = {k: v for k, v in node["metadata"].items() if k == "nn_module_stack"}
                body = json.dumps(model).encode()
            out.writestr(zipfile.ZipInfo(info.filename), body)
    return made.getvalue()


def outputs_of(found: Any) -> list[np.ndarray]:
    """Every tensor of a result, bf16 as fp32."""
    if isinstance(found, torch.Tensor):
        found = found.detach()
        return [(found.float() if found.dtype == torch.bfloat16 else found).numpy()]
    return [array for part in found for array in outputs_of(part)]


def archive_of(program: Any) -> bytes:
    """What torch.export.save writes."""
    out = io.BytesIO()
    torch.export.save(program, out)
    return trimmed(out.getvalue())


def archives_of(program: Any) -> Files:
    """The archive of an exported program and, where that is another graph, that of core ATen. A call of the module that
    was exported may change what they hold."""
    plain, core = archive_of(program), archive_of(program.run_decompositions())
    other = {"core.pt2": core} if json.loads(_graph(plain)) != json.loads(_graph(core)) else {}
    return {"pt2": plain, **other}


def packed(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Arrays as one file of NumPy."""
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def _graph(raw: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        return archive.read(next(n for n in archive.namelist() if n.endswith("models/model.json")))


def write(about: str, out: str, programs: Callable[[], Iterable[tuple[str, Callable[[], Files]]]]) -> None:
    """The command of a maker: writes the files of its programs, or of those that are named, to `out` beside it. A
    program that cannot be made is told and left out."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=str(Path(__file__).parent / out))
    parser.add_argument("--only", default="", metavar="NAME,...")
    options = parser.parse_args()
    only = set(options.only.split(",")) - {""}
    torch.manual_seed(0)
    with tarfile.open(options.out, "w:xz") as tar:
        for name, made in programs():
            if only and name not in only:
                continue
            try:
                files = made()
            except Exception as fault:  # noqa: BLE001 (another program is another matter)
                print(f"{name}: {type(fault).__name__} {str(fault)[:300]}")
                continue
            for kind, body in files.items():
                info = tarfile.TarInfo(f"{name}.{kind}")
                info.size = len(body)
                tar.addfile(info, io.BytesIO(body))
            print(name, *(f"{kind} {len(body)}" for kind, body in files.items()), flush=True)
