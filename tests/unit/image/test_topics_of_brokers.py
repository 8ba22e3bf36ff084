"""The index from brokers to topics beside a plain one of sets."""

from collections import defaultdict
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.topics_of_brokers import TopicsOfBrokers, TopicsOfBrokersChanges
from quorum_node.records.metadata import PartitionRecord, TopicRecord

BROKERS = st.sets(st.integers(0, 4))
ORDINALS = st.one_of(st.integers(0, 3), st.integers(250, 260), st.integers(0, 70_000))
RUNS = st.lists(st.dictionaries(ORDINALS, st.tuples(BROKERS, BROKERS), max_size=6), max_size=12)


@given(RUNS)
def test_random_changes_of_assignments(runs: list[dict[int, tuple[set[int], set[int]]]]) -> None:
    index, plain = TopicsOfBrokers(), defaultdict[int, set[int]](set)
    for run in runs:
        changes = TopicsOfBrokersChanges(index)
        for ordinal, (gained, lost) in run.items():
            changes.gained(ordinal, gained)
            changes.lost(ordinal, lost)
            for broker_id in gained - lost:
                plain[broker_id].add(ordinal)
            for broker_id in lost:
                plain[broker_id].discard(ordinal)
        kept, before = index, sorted(index.of(1))
        index = changes.finish()
        assert sorted(kept.of(1)) == before
    for broker_id in range(5):
        assert sorted(index.of(broker_id)) == sorted(plain[broker_id])
    assert set(index.brokers()) == {broker_id for broker_id in plain if plain[broker_id]}


def test_unchanged_set_is_the_same_object() -> None:
    index = TopicsOfBrokers()
    assert TopicsOfBrokersChanges(index).finish() is index


def test_recreated_topic_replaces_its_assignments() -> None:
    topic = TopicRecord(name="t", topic_id=UUID(int=500))
    partition = PartitionRecord(
        partition_id=0, topic_id=topic.topic_id, replicas=(1, 2), isr=(1, 2), leader=1,
        leader_epoch=0, partition_epoch=0,
    )  # fmt: skip
    topics = ClusterImage().replay_all((topic, partition)).replay(topic).topics
    assert (list(topics.of_brokers.brokers()), topics.partition_count, dict(topics.led)) == (
        [],
        0,
        {},
    )
    assert topics == ClusterImage().replay(topic).topics
