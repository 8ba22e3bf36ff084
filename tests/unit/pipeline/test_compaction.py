"""What is left after compaction gives the image that all records give: any history, any borders between blocks."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from quorum_node.image import resource_types
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.committed import CommittedImage
from quorum_node.image.resource_types import TOPIC
from quorum_node.records import batches
from quorum_node.records import metadata as md
from quorum_node.records.batches import Batch, encode_values, split_batches
from quorum_node.records.metadata import decode_metadata, encode_metadata, record, topic_records
from quorum_node.schema.encoder import FieldNotInVersion
from quorum_node.schema.primitives import MalformedRecord, encode_tagged_fields
from quorum_pipeline import compiled
from quorum_pipeline.canonical_encoding import Unsupported
from quorum_pipeline.compaction import merging
from quorum_pipeline.compaction.record_run import run_of_batches
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.spark.spark_history import JobHistory
from quorum_pipeline.spark.stages import StagesHere
from quorum_pipeline.spark.state_job import SparkState
from quorum_pipeline.spark.state_parts import snapshot_values
from quorum_pipeline.state.moment import Moment
from support.metadata_histories import histories
from support.values_source import ValuesSource, plan_of

A, B = UUID(int=1), UUID(int=2)


def batch_of(values: Sequence[bytes], offset: int = 0) -> Batch:
    data = encode_values(base_offset=offset, leader_epoch=1, timestamp_ms=5, values=values)
    (batch,), _ = split_batches(data)
    return batch


def replayed(values: Sequence[bytes]) -> CommittedImage:
    image = CommittedImage()
    image.replay(map(decode_metadata, values))
    return image


@dataclass(frozen=True)
class MergedState:
    """A state, and whether records had to be taken one by one."""

    state: SparkState
    one_by_one: bool

    @property
    def records(self) -> list[bytes]:
        """Of a snapshot, in order; Raises FieldNotInVersion."""
        mine = partial(snapshot_values, self.state._levels, self.state._nameless)
        return [value for _, value in sorted(self.state.buckets().flatMap(mine).collect())]

    @property
    def in_transaction(self) -> bool:
        return self.state.in_transaction


def compacting(values: Sequence[bytes], borders: Sequence[int] = (), block: int = 1) -> MergedState:
    """MergedState from spans that end at the borders. Raises PipelineError."""
    with JobHistory(StagesHere(1), ValuesSource(plan_of(values, borders, block))) as history:
        return MergedState(history.at(Moment()), history.one_by_one)


def assert_same(found: MergedState, expected: ClusterImage) -> None:
    assert found.records == list(expected.snapshot_records())


def encoded(*records: md.AnyMetadata) -> list[bytes]:
    return [encode_metadata(each, getattr(each, "HIGHEST_VERSION", 0)) for each in records]


def created(topic: UUID = A, name: str = "t", **fields: Any) -> list[md.AnyMetadata]:
    """A topic with one partition on brokers 1 and 2."""
    partition: dict[str, Any] = {
        "replicas": (1, 2), "isr": (1, 2), "leader": 1, "leader_epoch": 3, "partition_epoch": 7
    } | fields  # fmt: skip
    return [
        md.TopicRecord(name=name, topic_id=topic),
        md.PartitionRecord(partition_id=0, topic_id=topic, **partition),
    ]


def config(name: str = "k", value: str | None = "v", topic: str = "t") -> md.AnyMetadata:
    return md.ConfigRecord(resource_type=TOPIC, resource_name=topic, name=name, value=value)


def change(topic: UUID = A, partition_id: int = 0, **fields: Any) -> md.AnyMetadata:
    return md.PartitionChangeRecord(partition_id=partition_id, topic_id=topic, **fields)


BORDERS = st.lists(st.integers(0, 60), max_size=8)
SETTINGS = settings(
    deadline=None,
    max_examples=40,
    phases=set(Phase) - {Phase.explain},
    suppress_health_check=list(HealthCheck),
)


@SETTINGS
@given(histories(max_size=60, newer=False), BORDERS, st.integers(1, 30))
def test_compacted_records_give_the_same_image(
    values: list[bytes], borders: list[int], block: int
) -> None:
    found, expected = compacting(values, borders, block), replayed(values)
    assert_same(found, expected.image)
    assert found.in_transaction == expected.in_transaction


@SETTINGS
@given(histories(max_size=60), BORDERS, st.integers(1, 30))
def test_records_of_newer_versions_give_the_same_image(
    values: list[bytes], borders: list[int], block: int
) -> None:
    found, expected = compacting(values, borders, block), replayed(values)
    assert_same(found, expected.image)
    assert found.in_transaction == expected.in_transaction


BROKER_RECORDS = st.one_of(
    st.builds(
        md.BrokerRegistrationChangeRecord, broker_id=st.just(1), broker_epoch=st.integers(1, 2),
        fenced=st.integers(-1, 1), in_controlled_shutdown=st.integers(0, 1),
        log_dirs=st.sampled_from([(), (A,), (B,)]), cordoned_log_dirs=st.sampled_from([None, (), (A,)]),
    ),
    st.builds(
        md.RegisterBrokerRecord, broker_id=st.just(1), incarnation_id=st.just(A), features=st.just(()),
        broker_epoch=st.integers(1, 2), end_points=st.just(()), rack=st.sampled_from([None, "a"]), fenced=st.booleans(),
    ),
    st.builds(md.UnregisterBrokerRecord, broker_id=st.just(1), broker_epoch=st.integers(1, 2)),
    st.builds(md.FenceBrokerRecord, id=st.just(1), epoch=st.integers(1, 2)),
    st.builds(md.ProducerIdsRecord, broker_id=st.just(1), broker_epoch=st.just(1), next_producer_id=st.integers(0, 9)),
    st.just(md.NoOpRecord()),
)  # fmt: skip


@SETTINGS
@given(st.lists(BROKER_RECORDS, min_size=6, max_size=25), BORDERS, st.integers(1, 30))
def test_superseded_broker_records_have_no_effect_on_the_image(
    records: list[md.AnyMetadata], borders: list[int], block: int
) -> None:
    values = encoded(*records)
    found = compacting(values, borders, block)
    assert_same(found, replayed(values).image)
    assert not found.one_by_one


def test_aborted_transaction_leaves_nothing() -> None:
    begin, abort, end = (
        md.BeginTransactionRecord(name="n"), md.AbortTransactionRecord(), md.EndTransactionRecord()
    )  # fmt: skip
    records = [
        begin, *created(), abort, begin, *created(B, "u"), end, end, begin, config(), begin, config("other"),
    ]  # fmt: skip
    values = encoded(*records)
    for count in range(len(values) + 1):
        for block in (1, 3, 20):
            found, expected = compacting(values[:count], range(20), block), replayed(values[:count])
            assert_same(found, expected.image)
            assert found.in_transaction == expected.in_transaction


def test_deleted_topic_leaves_nothing() -> None:
    records = [
        *created(), config(), change(isr=(2,)), md.RemoveTopicRecord(topic_id=A),
        *created(B), change(B, leader=2),
    ]  # fmt: skip
    found = compacting(encoded(*records))
    assert not found.one_by_one
    assert found.records == list(
        replayed(encoded(*created(B), change(B, leader=2))).image.snapshot_records()
    )


def test_every_change_counts_for_the_partition_epochs() -> None:
    changes = [change(isr=(1,)), change(leader=2), change(leader=-2), change(), change(leader=2)]
    _, value = compacting(encoded(*created(), *changes)).records
    found = decode_metadata(value)
    assert isinstance(found, md.PartitionRecord)
    assert (found.partition_epoch, found.leader_epoch, found.leader) == (12, 5, 2)
    assert (found.isr, found.replicas) == ((1,), (1, 2))


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([*created(), change(partition_id=1)], "a change of partition .*-1, which does not exist"),
        ([*created(), md.RemoveTopicRecord(topic_id=A), change()], "which does not exist"),
        ([*created()[:1], *created(B)[1:]], "a partition of topic .*, which does not exist"),
        (
            [*created(), change(replicas=(1, 2), directories=(B,))],
            "directories for another number of replicas",
        ),
    ],
)
def test_contradiction_is_reported_with_its_offset(
    records: list[md.AnyMetadata], reason: str
) -> None:
    values = encoded(*records, *created(UUID(int=3), "u"))
    with pytest.raises(PipelineError, match=rf"^offset {len(records) - 1}: .*{reason}"):
        compacting(values, block=100)


@pytest.mark.parametrize(
    "records",
    [
        [*created(), *created(B), md.RemoveTopicRecord(topic_id=B), config()],
        [*created(), *created()[:1]],
        [*created(), change(tagged_fields=((900, b"newer"),))],
        [md.UnknownMetadata(type=99, version=0, payload=b""), *created()],
        [*created(), change(replicas=(1, 2, 3)), change(replicas=(3,), directories=(B,))],
        [config(name="\u00e9\U0001f600"), config(name="x" * 20_000), config(name="x" * 20_000)],
        [*created(), change(isr=(1,) * 30_000), change(adding_replicas=(2,) * 30_000)],
    ],
    ids=[
        "name of two", "twice", "newer field", "unknown", "no directories", "long names", "long arrays",
    ],
)  # fmt: skip
def test_unsupported_records_give_the_result_of_the_replay(records: list[md.AnyMetadata]) -> None:
    values = encoded(*records)
    assert_same(compacting(values), replayed(values).image)


@pytest.mark.parametrize("place", [1, 2], ids=["type", "version"])
def test_overlong_encoding_gives_the_result_of_the_replay(place: int) -> None:
    begin, end = md.BeginTransactionRecord(name="n"), md.EndTransactionRecord()
    values = encoded(
        *created(), config(), begin, config(value=None), end, md.RemoveTopicRecord(topic_id=A)
    )
    for index, value in enumerate(values):
        longer = bytes((*value[:place], value[place] | 0x80, 0, *value[place + 1 :]))
        some = [*values[:index], longer, *values[index + 1 : -1]]
        assert_same(compacting(some, block=100), replayed(some).image)


@pytest.mark.parametrize(
    "value",
    [
        encoded(change(isr=(1,) * 60_000))[0],
        encoded(md.NoOpRecord())[0][:-1] + encode_tagged_fields(dict.fromkeys(range(60_000), b"")),
    ],
    ids=["elements", "tagged fields"],
)  # fmt: skip
def test_oversized_records_are_found_even_if_superseded(value: bytes) -> None:
    values = [*encoded(*created()), value, *encoded(change(isr=(1,)))]
    with pytest.raises(PipelineError, match=r"^offset 2: .* too many"):
        compacting(values, block=100)


@pytest.mark.parametrize("source", [merging, batches, resource_types, topic_records, record])
def test_cache_compiled_for_other_record_counts_is_not_used(source: ModuleType) -> None:
    assert source.__file__ in map(str, compiled._SOURCES)


def test_allocation_is_limited_by_the_records_that_fit_into_a_batch() -> None:
    batch = batch_of(encoded(config()))
    with pytest.raises(Unsupported):
        run_of_batches(bytearray(batch.data), 1 << 60)


def test_epoch_beyond_its_type_has_no_place_in_a_snapshot() -> None:
    last = created(partition_epoch=(1 << 31) - 1, last_known_elr=(1,))
    values = encoded(*last, md.ClearElrRecord(topic_name="t"))
    merged, expected = compacting(values), replayed(values).image
    with pytest.raises(struct.error):
        _ = merged.records
    with pytest.raises(struct.error):
        list(expected.snapshot_records())


@pytest.mark.parametrize("place", range(19))
def test_invalid_utf_8_is_found_at_any_position(place: int) -> None:
    """It is looked at eight bytes at a time, and letter by letter at its end; a later value overtakes it."""
    first, other = encoded(config(value="x" * 19), config(value="other"))
    begin = first.index(b"x") + place
    damaged = first[:begin] + b"\xff" + first[begin + 1 :]
    with pytest.raises(PipelineError, match="offset 1: "):
        compacting([*encoded(config()), damaged, other], [1])
    letters = [config(value="x" * place + text + "y" * 9) for text in ("é", "€", "𝄞")]
    values = encoded(*created(), *letters)
    assert_same(compacting(values), replayed(values).image)


def test_invalid_record_is_found_even_if_superseded() -> None:
    values = encoded(*created(), change(isr=(1,)), change(isr=(2,)), config())
    for index in range(2, len(values)):
        for cut in range(len(values[index])):
            broken = [*values]
            broken[index] = values[index][:cut]
            with pytest.raises(PipelineError, match=rf"^offset {index}:"):
                compacting(broken, block=100)


@SETTINGS
@given(histories(max_size=30), st.data())
def test_flipped_bits_give_the_same_result_in_both_implementations(
    values: list[bytes], data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, len(values) - 1))
    place = data.draw(st.integers(0, 8 * len(values[index]) - 1))
    broken = bytearray(values[index])
    broken[place // 8] ^= 1 << place % 8
    values[index] = bytes(broken)
    try:
        expected = replayed(values)
    except (MalformedRecord, ValueError):
        try:
            merged = compacting(values, block=100)
        except PipelineError:
            return
        # Records of an open transaction take no effect yet: they are verified when it ends.
        assert merged.in_transaction
        return
    found = compacting(values, block=100)
    try:
        records = list(expected.image.snapshot_records())
    except FieldNotInVersion:
        # The bit set a field that there is no place for at the level of the cluster.
        with pytest.raises(FieldNotInVersion):
            _ = found.records
        return
    assert found.records == records
