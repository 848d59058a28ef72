"""The header of a program: what a caller in C or C++ reads."""

from __future__ import annotations

from ..ir.model import Tensor, is_exchanged
from ..kit.quote import visible
from ..lower.cu.names import comment
from ..runtime.abi import alignment_of
from .outline import Outline
from .spelling import Spelt

FAULTS = {  # in the order of their codes, from -1 down
    "BAD_SIZE": "a size outside of its range, or a tensor of more bytes than any GPU has",
    "NO_KERNEL": "no kernel takes these sizes",
    "BAD_ADDRESS": "a pointer that is null, or no multiple of its tensor's alignment",
    "NO_MEMORY": "the host has no memory",
    "NO_DATA": "the file cannot be opened",
    "BAD_DATA": "the file was not written with this C, or is damaged",
    "WRONG_GPU": "the kernels were compiled for another GPU",
}


def header_of(outline: Outline, spelt: Spelt, targets: str) -> str:
    """The whole header."""
    name, upper = spelt.name, spelt.name.upper()
    width = max(map(len, FAULTS)) + len(upper) + 1
    codes = [f"  {f'{upper}_OK':<{width}} = 0,   // positive codes are the driver's: CUresult"]
    codes += [
        f"  {f'{upper}_{word}':<{width}} = {-n},  // {why}" for n, (word, why) in enumerate(FAULTS.items(), start=1)
    ]
    lines = [
        comment(
            f"{outline.name}: a program that tinyir compiled for {targets}. It needs the CUDA driver, and no Python."
        ),
        "//",
        f"//   {name}_program *program;",
        f'//   int fault = {name}_create("{name}.data", 0, &program);',
        f"//   if (!fault) fault = {name}_run(program, {', '.join(spelt.names_of_run(outline))});",
        f"//   if (fault) puts({name}_error());",
        f"//   {name}_destroy(program);",
        "//",
        "// A program does not change once it is created: any number of threads may run it, each with a workspace and",
        "// a stream of its own. A run queues its kernels on the stream and returns; it allocates nothing and waits",
        "// for nothing, so it may be captured in a CUDA graph. Pointers of a run are addresses of the GPU. Memory of",
        "// a tensor comes in whole 16 bytes.",
        f"#ifndef {upper}_H",
        f"#define {upper}_H",
        "",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        "struct CUstream_st;  // what a CUstream, and a cudaStream_t, points to",
        f"typedef struct {name}_program {name}_program;",
        "",
        "enum {",
        *codes,
        "};",
        "",
        "// The kernels and weights of a file, loaded on a GPU by its number. On a fault the program is NULL.",
        f"int {name}_create(const char *data, int device, {name}_program **program);",
        "",
        "// The bytes of workspace of a run; it lies at a multiple of 256 bytes, and holds nothing between runs.",
        f"int {name}_workspace_bytes({_listed([*spelt.sizes(outline), 'size_t *bytes'])});",
        "",
        "// One run.",
        *([f"// {visible(r)}" for r in _ranges(outline)]),
        f"int {name}_run(const {name}_program *program,",
        *(_parameter(outline, spelt, t) for t in outline.parameters),
        f"    {_listed([*spelt.sizes(outline), 'void *workspace', 'struct CUstream_st *stream'])});",
        "",
        *_reset(outline, spelt),
        "// Give a program back, and its memory on the GPU; no run of it may be under way.",
        f"void {name}_destroy({name}_program *program);",
        "",
        "// What the last fault of this thread was, in words: what it was at, and why.",
        f"const char *{name}_error(void);",
        "",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "",
        "#endif",
    ]
    return "\n".join(lines) + "\n"


def _listed(parts: list[str]) -> str:
    return ", ".join(parts)


def _parameter(outline: Outline, spelt: Spelt, tensor: Tensor) -> str:
    stated = spelt.parameter(outline, tensor) + ","
    laid = ", the last two axes exchanged in memory" if is_exchanged(tensor) else ""
    kind = "in and out" if spelt.is_state(outline, tensor) else "out" if tensor.name in outline.outputs else "in"
    aligned = f", at a multiple of {alignment_of(tensor)} bytes"
    return f"    {stated:<24} {comment(f'{kind} {tensor.name} : {tensor.type}{laid}{aligned}')}"


def _ranges(outline: Outline) -> list[str]:
    return [f"{s} is in {low}..{high}." for s, (low, high) in outline.ranges.items()]


def _reset(outline: Outline, spelt: Spelt) -> list[str]:
    if not outline.states:
        return []
    named = _listed([f"void *{spelt.tensor(n)}" for n in outline.states])
    return [
        "// The values that these tensors have before the first run.",
        f"int {spelt.name}_reset(const {spelt.name}_program *program, {named}, struct CUstream_st *stream);",
        "",
    ]
