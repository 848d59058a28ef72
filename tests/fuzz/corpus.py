"""Right inputs to begin from: the samples at every stage, the golden cases' texts, and the plans of every family's
cases; and which commands read them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.unit.families import CASES

ROOT = Path(__file__).resolve().parents[2]
# characters of a text: the largest samples take seconds each, and have no statement that smaller ones have not
MOST = 9_000
FILTER_OF = {
    "tiny": "tiny-index",
    "index": "tiny-poly",
    "poly": "tiny-region",
    "region": "tiny-plan",
    "plan": "tiny-gpu",
    "gpu": "tiny-cu",
    "cu": "tiny-run",
}
READERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "model": (
        ("tiny-front",),
        ("tiny-front",),
        ("tinyc", "--emit=region"),
        ("tinyc",),
        ("tiny-front", "--to-dsl"),
        ("tiny-front", "--to-coreir"),
        ("tiny-front", "--fix"),
    ),
    **{
        stage: ((name,), (name,), ("tiny-check",), ("tiny-opt",), ("tiny-dot",))
        for stage, name in FILTER_OF.items()
        if stage != "cu"
    },
    "cu": (
        ("tiny-check",),
        ("tiny-opt",),
        ("tiny-run", "--device=cpu", "--random=1", "--size=M=3", "--size=N=5", "--size=K=4"),
    ),
}
READERS["tiny"] += (("tiny-opt", "--canonical"), ("tinyc",), ("tiny-front", "--to-dsl"))
READERS["region"] += (("tiny-play", "--random=1", "--size=M=3", "--size=N=5", "--size=K=4"), ("tinyc",))


@dataclass(frozen=True, slots=True)
class Seed:
    """A right text and the lines of command that may read it."""

    name: str
    text: str
    lines: tuple[tuple[str, ...], ...]


def seeds() -> tuple[Seed, ...]:
    """All of them, in one order on every machine."""
    found = []
    for stage in ("json", *FILTER_OF):
        for file in sorted((ROOT / "samples").glob(f"*/*.{stage}")):
            text = file.read_text(encoding="utf-8")
            if len(text) <= MOST:
                found.append(Seed(file.name, text, READERS["model" if stage == "json" else stage]))
    for file in sorted((ROOT / "tests" / "golden").glob("*/*.case")):
        first, *rest = file.read_text(encoding="utf-8").split("\n")
        while rest and rest[0].startswith("# $ "):
            rest.pop(0)
        command = first.removeprefix("# $ ").split("|")[0].split()
        text = "\n".join(rest)
        kind = (
            "model"
            if command[0] == "tiny-front"
            else next((s for s, name in FILTER_OF.items() if name == command[0]), "")
        )
        if kind and text.strip():
            found.append(Seed(file.stem, text, READERS[kind]))
    found += [Seed(name, text, READERS["plan"]) for name, text in CASES.items()]
    return tuple(found)
