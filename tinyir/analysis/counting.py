"""How many points an isl set has, exactly and without listing them: dims that share no constraint are counted apart and
multiplied."""

from __future__ import annotations

from typing import Any


def count(points: Any) -> int:
    """The number of points of a bounded isl set without parameters."""
    import islpy as isl

    total = 0
    for piece in points.make_disjoint().get_basic_sets():
        if piece.is_empty():
            continue
        rank, product = piece.dim(isl.dim_type.set), 1
        whole = isl.Set.from_basic_set(piece)
        for group in _groups(piece, rank):
            part = whole
            for dim in reversed(range(rank)):
                if dim not in group:
                    part = part.project_out(isl.dim_type.set, dim, 1)
            product *= int(str(part.count_val()))
        total += product
    return total


def _groups(piece: Any, rank: int) -> list[set[int]]:
    """The dims in groups between which no constraint runs; a dim that a division ties to others is in their group."""
    import islpy as isl

    home = {("s", n): {("s", n)} for n in range(rank)}
    home |= {("d", n): {("d", n)} for n in range(piece.dim(isl.dim_type.div))}
    for constraint in piece.get_constraints():
        tied = [("s", n) for n in range(rank) if not constraint.get_coefficient_val(isl.dim_type.set, n).is_zero()]
        tied += [
            ("d", n)
            for n in range(constraint.dim(isl.dim_type.div))
            if not constraint.get_coefficient_val(isl.dim_type.div, n).is_zero()
        ]
        if tied:
            joined = set().union(*(home[t] for t in tied))
            for t in joined:
                home[t] = joined
    groups = []
    for n in range(rank):
        group = {m for kind, m in home["s", n] if kind == "s"}
        if group not in groups:
            groups.append(group)
    return groups
