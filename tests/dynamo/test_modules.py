"""`torch.compile(backend="tinyir")` of modules as people write them: values, dtypes, strides, what shares memory, what
is written in place and what is differentiated, all as torch itself has it."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from . import layers  # noqa: E402, F401  (more cases)
from .cases import CASES, DEVICE, Call  # noqa: E402

tree = torch.utils._pytree
MODES = {
    "plain": torch.no_grad,
    "sizes": torch.no_grad,  # all are symbols
    "inference": torch.inference_mode,
    "training": torch.enable_grad,
    "autocast": lambda: torch.autocast(DEVICE, dtype=torch.bfloat16),
}
# What torch itself does not do, with any backend.
NOT_TORCHS = {("overlapping_inputs", "sizes"), ("overlapping_inputs", "autocast")}
if DEVICE == "cuda":  # cuDNN has gradients of these in training alone, which they are not in
    NOT_TORCHS |= {("lstm", "training"), ("gru", "training")}
# Torch writes to nothing that a gradient is asked of.
WRITES = {"in_place_input", "in_place_view_input", "in_place_no_output", "strided_input_in_place", "overlapping_inputs"}
NEAR = {torch.float16: 2e-3, torch.bfloat16: 2e-2}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CASES)
def test_a_module_is_as_torch_has_it(name: str, mode: str) -> None:
    if (name, mode) in NOT_TORCHS:
        pytest.skip("torch itself does not")
    from tinyir.dynamo import backend

    torch._dynamo.reset()
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    wanted, calls = CASES[name]()
    own = copy.deepcopy(wanted)
    made, traced = (
        torch.compile(m, backend=b, dynamic=True if mode == "sizes" else None)
        for m, b in ((own, backend), (copy.deepcopy(wanted), "aot_eager"))
    )
    for call in calls:
        named = call.named if isinstance(call, Call) else {}
        with warnings.catch_warnings(), MODES[mode]():
            warnings.simplefilter("ignore")
            sides = []
            for run in (wanted, made):
                given = copied(tuple(call), mode == "training" and name not in WRITES)
                sides.append((given, run(*given, **named)))
            given = copied(tuple(call), mode == "training" and name not in WRITES)
            memory = memory_of((given, traced(*given, **named)))
            must_be_alike(*sides, near=2e-2 if mode == "autocast" else 2e-4)
            assert memory_of(sides[1]) in (memory_of(sides[0]), memory)
            if mode == "training":
                must_have_alike_gradients(sides, (wanted, own))
    for ours, theirs in zip(own.buffers(), wanted.buffers()):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def copied(arguments: Any, is_differentiated: bool) -> Any:
    """The arguments again: what shared memory shares it in the copy, with the same strides."""
    memory: dict[int, Any] = {}

    def copy_of(tensor: Any) -> Any:
        own = tensor.untyped_storage()
        kept = memory.setdefault(own.data_ptr(), own.clone())
        made = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        made.set_(kept, tensor.storage_offset(), tensor.shape, tensor.stride())
        return made.requires_grad_(is_differentiated and tensor.is_floating_point())

    return tree.tree_map_only(torch.Tensor, copy_of, arguments)


def must_be_alike(wanted: Any, found: Any, near: float) -> None:
    """All that is given and made: values and types."""
    (theirs, form), (ours, own_form) = tree.tree_flatten(wanted), tree.tree_flatten(found)
    assert str(own_form) == str(form)
    for a, b in zip(theirs, ours):
        if not isinstance(a, torch.Tensor):
            assert a == b and type(a) is type(b)
            continue
        assert (b.dtype, b.shape, b.device) == (a.dtype, a.shape, a.device)
        assert b.requires_grad == a.requires_grad
        bound = max(near, NEAR.get(a.dtype, 0))
        torch.testing.assert_close(b, a, equal_nan=True, rtol=bound, atol=bound)


def memory_of(values: Any) -> list[tuple[Any, int]]:
    """Of each tensor with elements the strides of its axes longer than 1, and the first that has its memory. A graph
    that was traced may have others than the same ops one by one: attention's strides are those of the kernel that was
    chosen."""
    memory: dict[int, int] = {}
    tensors = [v for v in tree.tree_leaves(values) if isinstance(v, torch.Tensor) and v.numel()]
    return [
        ([s for s, size in zip(t.stride(), t.shape) if size > 1], memory.setdefault(t.untyped_storage().data_ptr(), n))
        for n, t in enumerate(tensors)
    ]


def must_have_alike_gradients(sides: Any, modules: Any) -> None:
    """Of a sum of squares of all that is made, by what it was made of."""
    found = []
    for (given, results), module in zip(sides, modules):
        tensors = [t for t in tree.tree_leaves((given, dict(module.named_parameters()))) if isinstance(t, torch.Tensor)]
        leaves = [t for t in tensors if t.requires_grad and t.is_leaf]
        made = [t for t in tree.tree_leaves(results) if isinstance(t, torch.Tensor) and t.grad_fn is not None]
        loss = sum(t.abs().double().pow(2).sum() for t in made)
        found.append(torch.autograd.grad(loss, leaves, allow_unused=True) if made and leaves else ())
    for a, b in zip(*found):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(b, a, equal_nan=True, rtol=1e-3, atol=1e-3)
