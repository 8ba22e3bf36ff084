"""Versions of rows: at every offset they are the rows of a node that has replayed the log up to there."""

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum_node.image.committed import CommittedImage
from quorum_node.image.resource_types import TOPIC
from quorum_node.records import metadata as md
from quorum_node.records.control import VotersRecord
from quorum_node.schema.primitives import MalformedRecord
from quorum_pipeline.state.versions import Version, VersionedBucket, VersionedVoters
from support.delta_checks import SHORT
from support.delta_records import LOGS
from support.metadata_histories import histories
from support.metadata_records import config
from support.version_checks import tables_at, tables_of, versions_of
from support.written_log import TOPIC_ID, partition, voter


def check(values: list[bytes], count: int) -> None:
    versions, wrong = versions_of(values, count)
    node = CommittedImage()
    for offset, value in enumerate(values):
        assert tables_at(versions, offset) == tables_of(node.image), f"at offset {offset}"
        if offset == wrong:
            with pytest.raises((ValueError, MalformedRecord)):
                node.replay([md.decode_metadata(value)])
            return
        node.replay([md.decode_metadata(value)])
    assert tables_at(versions, len(values)) == tables_of(node.image)
    assert wrong is None


@pytest.mark.requirement("SP-03")
@given(st.one_of(LOGS, histories(max_size=60)), st.integers(1, 4))
@SHORT
def test_versions_at_every_offset_equal_those_of_a_node(values: list[bytes], count: int) -> None:
    check(values, count)


@pytest.mark.long
@pytest.mark.requirement("SP-03")
@given(st.one_of(LOGS, histories(max_size=60)), st.integers(1, 5))
@settings(SHORT, max_examples=1_000)
def test_versions_at_every_offset_equal_those_of_a_node_for_many_examples(
    values: list[bytes], count: int
) -> None:
    check(values, count)


def take(*records: md.AnyMetadata) -> list[tuple[str, int, object]]:
    bucket = VersionedBucket(0, 1)
    return [
        (each.table, each.valid_from, None if each.row is None else each.row.get("value", True))
        for offset, record in enumerate(records)
        for each in bucket.take(offset, 0, record)
    ]


def test_deleted_topic_removes_its_partitions_and_configs() -> None:
    made = (
        md.TopicRecord(name="t", topic_id=TOPIC_ID),
        partition(0, (1,)),
        config(TOPIC, "t", "k", "1"),
    )
    assert take(*made, md.RemoveTopicRecord(topic_id=TOPIC_ID)) == [
        ("topics", 1, True), ("partitions", 2, True), ("configs", 3, "1"),
        ("topics", 4, None), ("partitions", 4, None), ("configs", 4, None),
    ]  # fmt: skip


def test_transaction_is_one_version_and_an_aborted_one_is_none() -> None:
    begin, end = md.BeginTransactionRecord(name=None), md.EndTransactionRecord()
    abort = md.AbortTransactionRecord(reason=None)
    first, second = config(TOPIC, "t", "k", "1"), config(TOPIC, "t", "k", "2")
    assert take(begin, first, second, end) == [("configs", 4, "2")]
    assert take(begin, first, abort) == []
    assert take(first, begin, second, first, end) == [("configs", 1, "1")], (
        "a version was written without a change"
    )


def test_unchanged_state_gets_no_new_version() -> None:
    bucket = VersionedBucket(0, 1)
    bucket.know([config(TOPIC, "t", "k", "1"), config(TOPIC, "t", "l", "1")])
    assert bucket.take(10, 5, config(TOPIC, "t", "k", "1")) == []
    (found,) = bucket.take(11, 6, config(TOPIC, "t", "k", None))
    key = ("topic", "t", "k")
    assert found == Version("configs", key, None, 12, 6)
    (left,) = bucket.known(12, 7)
    assert (left.key, left.valid_from, left.time_ms) == (("topic", "t", "l"), 12, 7)


def test_voters_are_versions_too() -> None:
    voters = VersionedVoters()
    one, two, other = voter(1, 11), voter(2, 12), voter(2, 13)
    voters.know(VotersRecord((one,)))
    assert [each.key[0] for each in voters.known(0, 0)] == [1]
    (added,) = voters.take(4, 1000, VotersRecord((one, two)))
    assert added.row is not None
    assert (added.key[0], added.valid_from, added.time_ms) == (2, 5, 1000)
    assert added.row["endpoints"] == ["CONTROLLER://host-2:9093"]
    replaced = list(voters.take(6, 2000, VotersRecord((one, other))))
    assert [(each.key[0], each.row is None, each.valid_from) for each in replaced] == [
        (2, True, 7),
        (2, False, 7),
    ]


def test_topic_is_deleted_when_another_takes_its_name() -> None:
    """No controller writes this; a node shows the one that took the name last."""
    first = md.TopicRecord(name="t", topic_id=UUID(int=1))
    second = md.TopicRecord(name="t", topic_id=UUID(int=2))
    values = [md.encode_metadata(each) for each in (first, second)]
    for count in (1, 2, 3):
        check(values, count)
