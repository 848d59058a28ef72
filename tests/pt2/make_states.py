"""Small archives of programs that change what they keep, and of recurrent layers, with what torch's own give and hold
after each of a few calls.

    python tests/pt2/make_states.py [--out tests/pt2/states.tar.xz] [--only NAME,...]     needs torch 2.11, no GPU

Each is exported as it is, with ops that write to a buffer or an input, and decomposed, where the signature says what is
changed. `NAME.npz` holds, of each call, inputs `0.i0`, `0.i1`, ..., outputs `0.o0`, ... and afterwards the buffers
`0.b.NAME` and inputs that the call changed `0.m0`, ....
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

try:
    from .making import Files, Wrapped, archives_of, normal, outputs_of, packed, write
except ImportError:
    from making import Files, Wrapped, archives_of, normal, outputs_of, packed, write

CALLS = 3
HEADS, ROOM, DEPTH = 2, 6, 4


class Counter(nn.Module):
    """A number that each call counts up."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * self.calls


class Mean(nn.Module):
    """A running mean that is read before and after its update."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.rand(5) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        old = self.mean * 1.0
        self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return (x - self.mean) * old


class Last(nn.Module):
    """What the call before was given."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(3, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x - self.last
        self.last.copy_(x)
        return y


class Cache(nn.Module):
    """Attention whose keys and values are kept, one row more with each call."""

    def __init__(self, put: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None], dtype: torch.dtype):
        super().__init__()
        self.put = put
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, HEADS, ROOM, DEPTH, dtype=dtype))

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        self.put(self.keys, at, key)
        self.put(self.values, at, value)
        mask = torch.arange(ROOM)[None] <= at[:, None]
        return F.scaled_dot_product_attention(query, self.keys, self.values, attn_mask=mask)


def copied(cache: torch.Tensor, at: torch.Tensor, rows: torch.Tensor) -> None:
    """As HF's StaticCache does."""
    cache.index_copy_(2, at, rows)


def put(cache: torch.Tensor, at: torch.Tensor, rows: torch.Tensor) -> None:
    """By an index."""
    cache[:, :, at] = rows


class Ring(nn.Module):
    """Rows that move up by one; the last one is new."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(ROOM, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.rows.copy_(torch.cat([self.rows[1:], x]))
        return self.rows.sum(0)


class Fixed(nn.Module):
    """A part of a buffer that is written at a fixed place."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(ROOM, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.rows[2:3] = x
        return self.rows.sum(0)


def added(x: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    """An input that the call changes."""
    total.add_(x)
    return total * 2


def programs() -> dict[str, tuple[nn.Module, Callable[[int], tuple[torch.Tensor, ...]]]]:
    """Each module, and its inputs at each call."""

    def rows(call: int, dtype: torch.dtype = torch.float32, count: int = 1) -> tuple[torch.Tensor, ...]:
        made = [normal(1, HEADS, count, DEPTH, dtype=dtype) for _ in range(3)]
        return (*made, torch.arange(count) + call)

    norm, net = nn.BatchNorm2d(3), nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
    return {
        "counter": (Counter(), lambda call: (normal(2, 3),)),
        "mean": (Mean(), lambda call: (normal(4, 5),)),
        "last": (Last(), lambda call: (normal(3, 5),)),
        "norm": (norm.train(), lambda call: (normal(2, 3, 4, 5),)),
        "net": (net.train(), lambda call: (normal(2, 3, 5, 5),)),
        "cache_copied": (Cache(copied, torch.float32), rows),
        "cache_put": (Cache(put, torch.float32), rows),
        "cache_half": (Cache(copied, torch.float16), lambda call: rows(call, torch.float16)),
        "cache_rows": (Cache(copied, torch.float32), lambda call: rows(call, count=2)),
        "ring": (Ring(), lambda call: (normal(1, 3),)),
        "fixed": (Fixed(), lambda call: (normal(1, 3),)),
        "added": (Wrapped(added), lambda call: (normal(2, 3), normal(2, 3))),
        "lstm_both_ways": (
            nn.LSTM(4, 5, num_layers=2, bidirectional=True, batch_first=True).eval(),
            lambda call: (normal(2, 3, 4),),
        ),
        "lstm_projected": (nn.LSTM(4, 5, proj_size=3).eval(), lambda call: (normal(3, 2, 4),)),
        "lstm_without_bias": (nn.LSTM(4, 5, bias=False).eval(), lambda call: (normal(3, 2, 4),)),
        "gru_both_ways": (nn.GRU(4, 5, num_layers=2, bidirectional=True).eval(), lambda call: (normal(3, 2, 4),)),
        "gru_from": (nn.GRU(4, 5).eval(), lambda call: (normal(3, 2, 4), normal(1, 2, 5))),
        "rnn": (nn.RNN(4, 5, nonlinearity="relu", num_layers=2).eval(), lambda call: (normal(3, 2, 4),)),
        "rnn_tanh": (nn.RNN(4, 5).eval(), lambda call: (normal(3, 2, 4), normal(1, 2, 5))),
    }


def made_of(module: nn.Module, inputs_of: Callable[[int], tuple[torch.Tensor, ...]]) -> Files:
    """A program with what it is given, gives and holds at each call."""
    given = [inputs_of(call) for call in range(CALLS)]
    archives = archives_of(torch.export.export(module, tuple(t.clone() for t in given[0])))
    arrays: dict[str, np.ndarray] = {}
    for call, inputs in enumerate(given):
        arrays |= {f"{call}.i{n}": outputs_of(v)[0].copy() for n, v in enumerate(inputs)}
        results = outputs_of(module(*inputs))
        arrays |= {f"{call}.o{n}": v.copy() for n, v in enumerate(results)}
        arrays |= {f"{call}.b.{n}": outputs_of(v)[0].copy() for n, v in module.named_buffers()}
        arrays |= {f"{call}.m{n}": outputs_of(v)[0].copy() for n, v in enumerate(inputs)}
    return {"npz": packed(arrays), **archives}


def every_program() -> Iterator[tuple[str, Callable[[], Files]]]:
    """All of them, in the order in which they are made."""
    for name, item in programs().items():
        yield name, lambda item=item: made_of(*item)


if __name__ == "__main__":
    write(__doc__, "states.tar.xz", every_program)
