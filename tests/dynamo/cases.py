"""Modules as people write them, each with the arguments of some calls: what they are given, and what they give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
Made = tuple[Any, list[Any]]
CASES: dict[str, Callable[[], Made]] = {}


class Call(tuple):
    """The arguments of a call, some of them by name."""

    named: dict[str, Any]

    def __new__(cls, *arguments: Any, **named: Any) -> Call:
        made = super().__new__(cls, arguments)
        made.named = named
        return made


def case(make: Callable[[], Made]) -> Callable[[], Made]:
    """Note a case under its function's name."""
    CASES[make.__name__] = make
    return make


def drawn(*shape: int, dtype: Any = None) -> Any:
    """Normal numbers."""
    return torch.randn(*shape, device=DEVICE, dtype=dtype)


def module(forward: Callable[..., Any], **parts: Any) -> Any:
    """A module of one function, which is given the module and the arguments."""

    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, part in parts.items():
                setattr(self, name, part)

        def forward(self, *arguments: Any, **named: Any) -> Any:
            return forward(self, *arguments, **named)

    return Module().to(DEVICE)


@case
def no_parameters() -> Made:
    return module(lambda s, x: x * 2 + 1), [(drawn(3, 4),)]


@case
def unused_input() -> Made:
    return module(lambda s, x, y: x * 2), [(drawn(3, 4), drawn(5))]


@case
def output_is_input() -> Made:
    return module(lambda s, x, y: (x, y + 1, x)), [(drawn(3, 4), drawn(5))]


@case
def only_inputs() -> Made:
    return module(lambda s, x: x), [(drawn(3, 4),)]


@case
def view_output() -> Made:
    return module(lambda s, x: x.view(4, 3)), [(drawn(3, 4),)]


@case
def view_and_value() -> Made:
    return module(lambda s, x: (x.t(), x[1:], x.t() + 1)), [(drawn(3, 4),)]


@case
def view_of_made() -> Made:
    def f(s, x):
        y = x * 2
        return y, y.t(), y[0], y.view(-1)

    return module(f), [(drawn(3, 4),)]


@case
def in_place_input() -> Made:
    return module(lambda s, x: x.add_(1) * 2), [(drawn(3, 4),)]


@case
def in_place_view_input() -> Made:
    def f(s, x):
        x[:, 1:3] *= 2
        x[0].fill_(5)
        return x.sum()

    return module(f), [(drawn(3, 4),)]


@case
def in_place_no_output() -> Made:
    def f(s, x):
        x.mul_(3)

    return module(f), [(drawn(3, 4),)]


@case
def strided_input() -> Made:
    return module(lambda s, x: x.relu() + 1), [(drawn(6, 8)[::2, ::2],), (drawn(4, 3).t(),)]


@case
def strided_input_in_place() -> Made:
    return module(lambda s, x: x.mul_(2)), [(drawn(4, 3).t(),)]


@case
def without_axes() -> Made:
    return module(lambda s, x, y: (x * y, x + 1)), [
        (torch.tensor(2.0, device=DEVICE), torch.tensor(3.0, device=DEVICE))
    ]


@case
def without_axes_on_the_host() -> Made:
    return module(lambda s, x, y: x * y), [(drawn(3, 4), torch.tensor(3.0))]


@case
def ints() -> Made:
    return module(lambda s, x, n: x * n + n), [
        (drawn(3), 2),
        (drawn(3), 3),
        (drawn(3), 4),
        (drawn(3), 0),
        (drawn(3), -1),
    ]


@case
def floats() -> Made:
    return module(lambda s, x, n: x * n), [(drawn(3), 2.5), (drawn(3), 3.5), (drawn(3), 4.5), (drawn(3), 0.0)]


@case
def bools() -> Made:
    return module(lambda s, x, b: x * 2 if b else x - 1), [(drawn(3), True), (drawn(3), False)]


@case
def bool_tensors() -> Made:
    return module(
        lambda s, x, b: (x[..., None] > 0) & b,
    ), [(drawn(3), torch.tensor([True, False], device=DEVICE))]


@case
def none_input() -> Made:
    return module(lambda s, x, y=None: x + 1 if y is None else x + y), [(drawn(3), None), (drawn(3), drawn(3))]


@case
def none_output() -> Made:
    return module(lambda s, x: (None, x + 1, None)), [(drawn(3),)]


@case
def dict_output() -> Made:
    return module(lambda s, x: {"a": x + 1, "b": [x * 2, {"c": x}]}), [(drawn(3),)]


@case
def empty() -> Made:
    return module(lambda s, x: (x * 2, x.sum(0), x.sum())), [(drawn(0, 4),)]


@case
def empty_linear() -> Made:
    return torch.nn.Linear(4, 3).to(DEVICE), [(drawn(0, 4),)]


@case
def empty_cat() -> Made:
    return module(lambda s, x, y: torch.cat([x, y])), [(drawn(0, 4), drawn(2, 4))]


@case
def other_shapes() -> Made:
    return torch.nn.Linear(4, 3).to(DEVICE), [
        (drawn(2, 4),),
        (drawn(5, 4),),
        (drawn(7, 4),),
        (drawn(1, 4),),
        (drawn(0, 4),),
        (drawn(2, 3, 4),),
        (
            drawn(
                4,
            ),
        ),
    ]


@case
def data_dependent() -> Made:
    return module(lambda s, x: x[x > 0] * 2), [(drawn(10),)]


@case
def nonzero() -> Made:
    return module(lambda s, x: (x > 0).nonzero()), [(drawn(10),)]


@case
def python_branch() -> Made:
    def f(s, x):
        if x.sum() > 0:
            return x + 1
        return x - 1

    return module(f), [(drawn(4).abs(),), (-drawn(4).abs(),)]


@case
def several_graphs() -> Made:
    def f(s, x):
        y = s.a(x).relu()
        torch._dynamo.graph_break()
        z = s.b(y)
        n = int(z.shape[0])
        print(end="")
        return z * n

    return module(f, a=torch.nn.Linear(4, 8), b=torch.nn.Linear(8, 2)), [(drawn(3, 4),), (drawn(5, 4),)]


@case
def buffer_update() -> Made:
    def f(s, x):
        s.n += 1
        return x + s.n

    m = module(f)
    m.register_buffer("n", torch.zeros((), device=DEVICE))
    return m, [(drawn(3),), (drawn(3),)]


@case
def same_input_twice() -> Made:
    x = drawn(3, 4)
    return module(lambda s, x, y: x + y * 2), [(x, x)]


@case
def overlapping_inputs() -> Made:
    x = drawn(4, 4)

    def f(s, a, b):
        a.add_(1)
        return b * 2

    return module(f), [(x[:3], x[1:])]


@case
def expanded_input() -> Made:
    return module(lambda s, x: x + 1), [(drawn(1, 4).expand(3, 4),)]


@case
def kw_only() -> Made:
    return module(lambda s, x, *, scale=2: x * scale), [Call(drawn(3), scale=3)]


@case
def list_input() -> Made:
    return module(lambda s, xs: torch.stack(xs).sum(0)), [([drawn(3), drawn(3)],), ([drawn(3), drawn(3), drawn(3)],)]


@case
def constants_inside() -> Made:
    return module(lambda s, x: x + torch.tensor([1.0, 2.0, 3.0], device=DEVICE)), [(drawn(3),)]


@case
def no_tensor_input() -> Made:
    return module(lambda s: torch.ones(3, device=DEVICE) * 2), [()]


@case
def param_only() -> Made:
    return module(lambda s: s.w * 2, w=torch.nn.Parameter(torch.randn(3))), [()]


@case
def output_param() -> Made:
    return module(lambda s, x: (s.w, x + s.w), w=torch.nn.Parameter(torch.randn(3))), [(drawn(3),)]


@case
def param_view() -> Made:
    return module(lambda s, x: (s.w.t(), x @ s.w.t()), w=torch.nn.Parameter(torch.randn(3, 4))), [(drawn(2, 4),)]


@case
def size_output() -> Made:
    return module(lambda s, x: (x.shape[0], x + 1, x.numel())), [(drawn(3, 4),), (drawn(5, 4),), (drawn(6, 4),)]


@case
def item_output() -> Made:
    return module(lambda s, x: x.sum().item()), [(drawn(3, 4),)]


@case
def strided_output() -> Made:
    def call(_: Any, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        turned = y.transpose(0, 1)
        beside, gaps = y[1:].as_strided((2, 3), (4, 1), 1), y[:, ::2].as_strided((2, 3), (4, 1))
        return y.as_strided((2, 2), (1, 2)), turned.as_strided((2, 2), (1, 2)) + 1, beside + 1, gaps + 1

    return module(call), [(drawn(3, 4),)]


@case
def detach_out() -> Made:
    return module(lambda s, x: (x.detach(), x.detach() + 1, x.clone(), x.contiguous())), [(drawn(3, 4),)]


@case
def constant_output() -> Made:
    return module(lambda s, x: (torch.tensor([1.0, 2.0], device=DEVICE), x + 1)), [(drawn(3),)]


@case
def constant_only() -> Made:
    return module(lambda s, x: torch.tensor([1.0, 2.0], device=DEVICE)), [(drawn(3),)]
