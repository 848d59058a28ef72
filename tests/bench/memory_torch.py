"""The ops of `memory_ops.py` as torch computes them, in the dtype in which it gets the inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def rms(torch: Any, x: Mapping[str, Any]) -> tuple[Any, ...]:
    wide = x["X"].double() if x["X"].dtype == torch.float64 else x["X"].float()
    found = wide * torch.rsqrt((wide * wide).mean(1, keepdim=True) + 1e-5) * x["g"].to(wide.dtype)
    return (found.to(x["X"].dtype),)


def biased(torch: Any, x: Mapping[str, Any]) -> tuple[Any, ...]:
    return (torch.nn.functional.gelu(x["X"] + x["b"]) + x["R"],)


def sum_along(axis: int) -> Callable[[Any, Mapping[str, Any]], tuple[Any, ...]]:
    def found(torch: Any, x: Mapping[str, Any]) -> tuple[Any, ...]:
        return (torch.sum(x["X"], axis, dtype=torch.float64 if x["X"].dtype == torch.float64 else torch.float32),)

    return found


def argmax(torch: Any, x: Mapping[str, Any]) -> tuple[Any, ...]:
    return (torch.argmax(x["X"], 1),)


def rotary(torch: Any, x: Mapping[str, Any]) -> tuple[Any, ...]:
    half = x["X"].shape[1] // 2
    low, high = x["X"][:, :half], x["X"][:, half:]
    return (torch.cat((low * x["c"] - high * x["s"], high * x["c"] + low * x["s"]), 1),)


def cross_entropy(torch: Any, x: Mapping[str, Any]) -> tuple[Any, ...]:
    logits = x["X"] if x["X"].dtype == torch.float64 else x["X"].float()
    return (torch.nn.functional.cross_entropy(logits, x["t"], reduction="none"),)


def quantised(torch: Any, x: Mapping[str, Any]) -> tuple[Any, ...]:
    """By fp32 in every dtype: the rounding of a number between two codes depends on it."""
    wide = x["X"].float()
    scale = wide.abs().amax(1, keepdim=True) * (1 / 127)
    return (torch.round(wide / scale).to(torch.int8), scale[:, 0])


def dequantised(torch: Any, x: Mapping[str, Any]) -> tuple[Any, ...]:
    return ((x["X"].to(x["k"].dtype) * x["k"][:, None]).to(x["k"].dtype),)


def quantised_fp8(torch: Any, x: Mapping[str, Any]) -> tuple[Any, ...]:
    wide = x["X"].float()
    scale = wide.abs().amax(1, keepdim=True) * (1 / 448)
    return ((wide / scale).to(torch.float8_e4m3fn), scale[:, 0])


def softmax_backward(torch: Any, x: Mapping[str, Any]) -> tuple[Any, ...]:
    y, g = (in_fp32(torch, x[n]) for n in ("P", "G"))
    return ((y * (g - (y * g).sum(1, keepdim=True))).to(x["P"].dtype),)


def layernorm_backward(torch: Any, x: Mapping[str, Any]) -> tuple[Any, ...]:
    given, g, w = (in_fp32(torch, x[n]) for n in ("X", "G", "w"))
    normed, gw = (given - x["m"]) * x["r"], g * w
    found = (gw - gw.mean(1, keepdim=True) - normed * (gw * normed).mean(1, keepdim=True)) * x["r"]
    return (found.to(x["X"].dtype),)


def weights_backward(torch: Any, x: Mapping[str, Any]) -> tuple[Any, ...]:
    given, g = (in_fp32(torch, x[n]) for n in ("X", "G"))
    return (g * (given - x["m"]) * x["r"]).sum(0), g.sum(0)


def in_fp32(torch: Any, x: Any) -> Any:
    """In fp32, as torch.compile computes; what is in fp64 stays."""
    return x if x.dtype == torch.float64 else x.float()
