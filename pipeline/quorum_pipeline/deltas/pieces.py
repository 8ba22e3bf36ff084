"""Which pieces of spans take effect if transactions extend over several spans. PURE.

A span has three pieces: HEAD, before its first transaction boundary, which an earlier transaction may hold back or
abort; BODY, which takes effect; TAIL, which belongs to a transaction open at the end. Source: KIP-868.
"""

from collections.abc import Sequence

from quorum_pipeline.deltas.span import Boundary

HEAD, BODY, TAIL = PIECES = range(3)


def counted(
    spans: Sequence[tuple[Boundary | None, bool]],
) -> tuple[list[tuple[int, int]], list[tuple[int, int]], bool]:
    """Return the pieces (number of the span, piece) that take effect in order, the aborted ones, and whether a transaction is open at the end.

    `spans`: first boundary and `is_open` of each.
    """
    found: list[tuple[int, int]] = []
    dropped: list[tuple[int, int]] = []
    held: list[tuple[int, int]] = []
    was_open = False
    for number, (boundary, is_open) in enumerate(spans):
        (held if was_open else found).append((number, HEAD))
        if boundary is None:
            continue
        if was_open:
            (found if boundary.ends else dropped).extend(held)
        held = [(number, TAIL)] if is_open else []
        was_open = is_open
        found.append((number, BODY))
    return found, dropped, was_open
