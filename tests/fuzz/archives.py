"""Small archives of torch.export, and what is made of them: words and numbers of their program changed, members
exchanged or cut, bytes changed."""

from __future__ import annotations

import functools
import io
import random
import zipfile

from tests.pt2.archives import members_of

from .corpus import ROOT
from .mutations import mutated_bytes, mutated_text

EACH = 7  # one archive in seven is enough: most of them differ in one op
MOST = 8_000  # bytes of an archive


@functools.cache
def archives() -> tuple[bytes, ...]:
    """Programs of single ops and small networks, with weights or without."""
    found = sorted(members_of(ROOT / "tests" / "pt2" / "archives.tar.xz").items())
    return tuple(raw for name, raw in found if name.endswith(".pt2") and len(raw) <= MOST)[::EACH]


def mutated(raw: bytes, draw: random.Random) -> bytes:
    """The archive with one member changed; at times its own bytes."""
    if draw.random() < 0.2:
        return mutated_bytes(raw, draw)
    with zipfile.ZipFile(io.BytesIO(raw)) as given:
        members = {name: given.read(name) for name in given.namelist()}
    name = draw.choice([n for n in members if n.endswith(".json")] if draw.random() < 0.8 else list(members))
    kind = draw.randrange(10)
    if kind == 0:
        del members[name]
    elif kind == 1:
        members[name] = members[draw.choice(list(members))]
    elif name.endswith(".json"):
        members[name] = mutated_text(members[name].decode("utf-8", "replace"), draw)
    else:
        members[name] = mutated_bytes(members[name], draw)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as written:
        for member, content in members.items():
            written.writestr(member, content)
    return made.getvalue()
