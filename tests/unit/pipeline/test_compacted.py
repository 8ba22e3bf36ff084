"""What compiled loops combine before its reduction gives the same delta as record by record, and the same state as a node."""

import itertools

import pytest
from hypothesis import given, settings

from quorum_node.records import metadata as md
from quorum_node.records.batches import Batch, encode_values, split_batches
from quorum_pipeline.canonical_encoding import Unsupported
from quorum_pipeline.compaction.record_run import run_of_values
from quorum_pipeline.deltas.span import Span
from quorum_pipeline.files.reduced_span import _compacted, _Pending
from quorum_pipeline.state.compacted import Changed, compacted
from support.delta_checks import CUTS, SHORT, assert_as_a_node, reduced
from support.delta_records import BEGUN, LOGS
from support.elr_histories import elr_histories
from support.metadata_histories import histories
from support.written_log import TOPIC_ID


def batches_of(values: list[bytes], borders: list[int], start: int) -> list[Batch]:
    places = sorted({0, len(values), *(each for each in borders if each < len(values))})
    data = b"".join(
        encode_values(
            base_offset=start + begin, leader_epoch=1, timestamp_ms=5, values=values[begin:end]
        )
        for begin, end in itertools.pairwise(places)
    )
    return split_batches(data)[0]


def compiled(values: list[bytes], start: int, borders: list[int]) -> Span:
    found = Span()
    pending = _Pending(found, compiled=True)
    for batch in batches_of(values, borders, start):
        pending.add(batch, batch.header.base_offset, batch.header.end_offset)
    assert pending.reduce() is None, "whole batches"
    return found


def is_cut(span: Span) -> bool:
    """Whether a delta ends where a topic is named that is not known. Loops may combine changes across it, which a record can't."""
    chains = (span.head, span.body, span.tail)
    return any(chain is not None and chain.names for chain in chains)


@SHORT
@given(LOGS, CUTS, CUTS)
@pytest.mark.requirement("SP-03")
def test_compiled_loops_records_and_node_agree(
    values: list[bytes], cuts: list[int], borders: list[int]
) -> None:
    places = sorted({0, len(values), *(each for each in cuts if each < len(values))})
    spans = [
        (compiled(values[begin:end], begin, borders), reduced(values, begin, end))
        for begin, end in itertools.pairwise(places)
    ]
    for fast, slow in spans:
        assert fast.malformed == slow.malformed
        if fast.malformed is None and not is_cut(slow):
            assert fast == slow
    whole = Span()
    for fast, _ in spans:
        whole.then(fast)
    assert_as_a_node(values, whole.finish())


@settings(SHORT, max_examples=3_000)
@given(LOGS, CUTS, CUTS)
@pytest.mark.long
@pytest.mark.requirement("SP-03")
def test_compiled_loops_records_and_node_agree_for_many_examples(
    values: list[bytes], cuts: list[int], borders: list[int]
) -> None:
    test_compiled_loops_records_and_node_agree.hypothesis.inner_test(values, cuts, borders)  # type: ignore[attr-defined]


@SHORT
@given(elr_histories(), CUTS, CUTS)
def test_cleared_eligible_leader_replicas_are_those_of_a_node(
    values: list[bytes], cuts: list[int], borders: list[int]
) -> None:
    test_compiled_loops_records_and_node_agree.hypothesis.inner_test(values, cuts, borders)  # type: ignore[attr-defined]


@settings(SHORT, max_examples=40)
@given(histories(max_size=60, newer=False))
@pytest.mark.requirement("SP-03")
def test_controller_records_are_supported_by_compiled_loops(values: list[bytes]) -> None:
    assert _compacted(Span(), batches_of(values, [], 0), len(values))


def change(**fields: object) -> bytes:
    record = md.PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, **fields)  # type: ignore[arg-type]
    return md.encode_metadata(record, record.HIGHEST_VERSION)


def test_hundred_thousand_changes_of_one_partition_are_one_row() -> None:
    values = [change(isr=(1, 2), leader=number % 3) for number in range(100)] * 1_000
    ((index, left),) = compacted(run_of_values(values))
    assert isinstance(left, Changed)
    assert (index, left.topic, left.change.changes, left.change.leaders) == (
        0,
        77,
        100_000,
        100_000,
    )
    assert (left.change.leader, left.change.isr) == (0, (1, 2))


def test_unknown_field_is_not_decoded_by_the_compiled_loops() -> None:
    with pytest.raises(Unsupported):
        compacted(run_of_values([*BEGUN, change(tagged_fields=((900, b"newer"),))]))
