"""A program that checks certificates of kernels, and shares no code with what makes them.

It imports nothing of tinyir. It reads the gpu text that a certificate carries by itself, finds what there is to show of
it, and takes nothing for shown but what it has added up or looked for again:

    polynomials   integers and facts
    text          kernels as lines
    stores        which statements write tensors
    certificate   the text of a certificate, and its verdicts: sums are added up, and no more is asked
    places        that places are inside, divisors positive, elements written once: sums that the certificate gives
    rules         tokens, barriers, what a card has
    run           that shared memory is used in order

The last three are programs of their own: each says what there is to show of its kind, and none of them reads another.
So who trusts one kind of claim reads its program and the four above.

What it does not look at it trusts; `TRUSTED` has that by name.
"""

from . import certificate
from .certificate import Refused, Verdict
from .places import places
from .rules import rules
from .run import order


class Verifier(certificate.Verifier):
    """Checks one certificate of everything."""

    checks = places, rules, order


TRUSTED = {
    "tiny-cu": "the CUDA does what the statements of the gpu text say",
    "nvcc": "the compiler and the card do what CUDA says",
    "launches": "kernels are launched one after another, where their `assume` holds, with tensors of their shapes",
    "copy engine": "it stays inside of a map's tensor, and brings as many bytes as its tile has",
    "matrices": "`each` walks each element of a matrix once, and a matrix unit reads the piece of its shape",
    "order": "`order` gives each tile one place",
    "elements": "threads that write a slot of shared memory between two barriers write different elements",
    "fences": "an engine sees what threads wrote, and threads what an engine wrote",
    "other CTAs": "tickets, draws, look_back and atomics, and that a CTA stays until others have read what it sends",
    "turns": "what is used in order for the first turns of a loop is used in order for all of them, at all sizes",
    "alignment": "what moves at once begins on a multiple of its width",
}

__all__ = ["TRUSTED", "Refused", "Verdict", "Verifier"]
