"""Cuts logs into spans, reduces and merges them, and compares the result with the state of a node after the same log."""

import random
from itertools import pairwise

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from quorum_pipeline.deltas.rows import image_of
from quorum_pipeline.deltas.span import Outcome, Span
from support.delta_records import node_state

SHORT = settings(
    deadline=None,
    max_examples=60,
    phases=set(Phase) - {Phase.explain},
    suppress_health_check=list(HealthCheck),
)
CUTS = st.lists(st.integers(0, 66), max_size=8)


def reduced(values: list[bytes], begin: int, end: int) -> Span:
    span = Span()
    for offset in range(begin, end):
        if not span.value(offset, values[offset]):
            break
    return span


def merged(values: list[bytes], cuts: list[int], seed: int) -> Outcome:
    """Cuts into any spans, including empty ones, then merges neighbours in any order."""
    borders = sorted({0, len(values), *(each for each in cuts if each < len(values))})
    spans = [reduced(values, *each) for each in pairwise(borders)]
    spans = spans or [Span()]
    rng = random.Random(seed)
    if seed % 3 == 0:
        spans.insert(rng.randrange(len(spans) + 1), Span())
    while len(spans) > 1:
        place = 0 if seed % 2 else rng.randrange(len(spans) - 1)
        spans[place : place + 2] = [spans[place].then(spans[place + 1])]
    return spans[0].finish()


def assert_as_a_node(values: list[bytes], found: Outcome) -> None:
    expected = node_state(values)
    assert (found.wrong.offset if found.wrong else None) == expected.wrong_at
    if found.wrong is not None:
        return
    assert found.in_transaction == expected.in_transaction
    image = image_of(found.delta)
    assert image.left_out == expected.image.left_out
    assert list(image.snapshot_records()) == list(expected.image.snapshot_records())
    if len(expected.image.topics.ids) == len(expected.image.topics):
        assert image == expected.image
