"""What a program changes of what it was given or keeps: buffers, such as caches and the statistics of a normalisation
in training, and inputs. Each becomes a state.

A decomposed program says so in its signature (`buffer_mutation`, `user_input_mutation`), with the value that takes the
place of the old one. One that is as torch traced it writes by ops whose name ends in `_`, and by batch_norm, which
changes its statistics without a word.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from .nodes import functional, named_by, names_in, word_of
from .views import SURE, sharing

MUTATIONS = {"buffer_mutation": "buffer_name", "user_input_mutation": "user_input_name"}
# ops that change arguments and do not give them; the translation gives what they become behind the op's own results
SILENT = {
    "batch_norm.default": ("running_mean", "running_var"),
    "_native_batch_norm_legit.default": ("running_mean", "running_var"),
    "native_batch_norm.default": ("running_mean", "running_var"),
}


def changed_by(graph: Any, signature: Any, named: Mapping[str, str], own: Collection[str]) -> dict[str, str]:
    """The inputs of the graph that it changes, each with the value that it leaves there; empty for what its nodes wrote
    last. `named` gives the input of the graph that is a buffer of the module, `own` are the inputs that may be
    changed."""
    found: dict[str, str] = {}
    for spec in signature["output_specs"]:
        ((kind, entry),) = spec.items()
        if kind in MUTATIONS:
            name = entry[MUTATIONS[kind]]
            found[named.get(name, name)] = entry["arg"]["name"]
    same: dict[str, str] = {}  # values that are a tensor written to, or a view of one, and the input that it is
    for node in graph["nodes"]:
        stated = word_of(node["target"])
        if sharing(node, stated, graph["tensor_values"]) == SURE:
            (first,) = names_in(node["inputs"][0]["arg"])
            same.update(dict.fromkeys(named_by(node["outputs"]), same.get(first, first)))
        for name in (*written_first(node, stated), *silently_changed(node, stated).values()):
            first = same.get(name, name)
            if first in own:
                found.setdefault(first, "")
                same.update(dict.fromkeys(named_by(node["outputs"]) if stated not in SILENT else (), first))
    return found


def written_first(node: Any, stated: str) -> list[str]:
    """The tensor that an op of the name `op_` writes to: its first operand."""
    return names_in(node["inputs"][0]["arg"])[:1] if functional(stated) != stated and node["inputs"] else []


def silently_changed(node: Any, stated: str) -> dict[str, str]:
    """The tensors that an op changes and does not give, by the argument that each is; none where it does not train."""
    args = {a["name"]: a["arg"] for a in node["inputs"]}
    trains = any(args.get(word, {}).get("as_bool") for word in ("training", "train"))
    words = SILENT.get(stated, ()) if trains else ()
    return {word: names_in(args[word])[0] for word in words if word in args and names_in(args[word])}
