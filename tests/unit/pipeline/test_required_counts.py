"""A condition of a change on a partition must hold also if the partition is deleted, or recreated, by the end of the span."""

from uuid import UUID

import pytest

from quorum_node.records import metadata as md
from support.delta_checks import assert_as_a_node, merged
from support.delta_records import BEGUN

TOPIC_ID = UUID(int=2)


def encoded(record: md.MetadataMessage) -> bytes:
    return md.encode_metadata(record, record.HIGHEST_VERSION)


WRONG = [
    encoded(
        md.PartitionChangeRecord(partition_id=1, topic_id=TOPIC_ID, directories=(UUID(int=7),))
    ),
    encoded(md.PartitionChangeRecord(partition_id=1, topic_id=TOPIC_ID, replicas=(1, 2, 3))),
]
AFTERWARDS = [
    encoded(md.TopicRecord(name="b", topic_id=TOPIC_ID)),
    encoded(md.RemoveTopicRecord(topic_id=TOPIC_ID)),
    BEGUN[-1],
    encoded(md.NoOpRecord()),
]


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("afterwards", AFTERWARDS)
@pytest.mark.parametrize("in_transaction", [False, True])
@pytest.mark.requirement("SP-03")
def test_excessive_count_is_reported_at_the_position_found_by_a_node(
    wrong: bytes, afterwards: bytes, in_transaction: bool
) -> None:
    begin, end = encoded(md.BeginTransactionRecord()), encoded(md.EndTransactionRecord())
    reported = [begin, wrong, end] if in_transaction else [wrong]
    values = [*BEGUN, *reported, afterwards]
    for cuts in ([], [6], [7], [3, 6, 7, 8]):
        for seed in (1, 2):
            outcome = merged(values, cuts, seed)
            assert outcome.wrong is not None
            assert_as_a_node(values, outcome)
