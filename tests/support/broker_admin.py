"""Administrators' requests to a broker of this software, one call each. The tests check the results."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from quorum_node.image.resource_types import BROKER, TOPIC
from quorum_node.protocol.apis import INCREMENTAL_ALTER_CONFIGS
from quorum_node.protocol.configs import (
    AlterableConfig,
    AlterConfigsResource,
    ConfigOperation,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from quorum_node.protocol.delete_records import (
    DELETE_RECORDS,
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from quorum_node.records.batches import (
    HEADER_BYTES,
    Batch,
    Record,
    decode_records,
    encode_batch,
    split_batches,
)
from quorum_node.storage.broker.batch_walk import batch_at
from support.python_brokers import PythonBrokers


def alter_topic(brokers: PythonBrokers, topic: str, configs: Mapping[str, str]) -> None:
    """Set configs of a topic."""
    _alter(brokers, TOPIC, topic, configs)


def alter_brokers(brokers: PythonBrokers, configs: Mapping[str, str]) -> None:
    """Set configs that hold for every broker."""
    _alter(brokers, BROKER, "", configs)


def alter_broker(brokers: PythonBrokers, broker_id: int, configs: Mapping[str, str]) -> None:
    """Set configs of one broker."""
    _alter(brokers, BROKER, str(broker_id), configs)


def _alter(brokers: PythonBrokers, kind: int, name: str, configs: Mapping[str, str]) -> None:
    changes = tuple(
        AlterableConfig(name=key, config_operation=ConfigOperation.SET, value=value)
        for key, value in configs.items()
    )
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
    body = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    answer = brokers.ask(next(iter(brokers.nodes)), INCREMENTAL_ALTER_CONFIGS, body)
    assert isinstance(answer, IncrementalAlterConfigsResponse)
    assert not any(each.error_code for each in answer.responses), answer


def delete_records(
    brokers: PythonBrokers, broker_id: int, topic: str, offset: int, timeout_ms: int = 10_000
) -> DeleteRecordsPartitionResult:
    """Of partition 0."""
    partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    body = DeleteRecordsRequest(
        topics=(DeleteRecordsTopic(name=topic, partitions=(partition,)),), timeout_ms=timeout_ms
    )
    answer = brokers.ask(broker_id, DELETE_RECORDS, body)
    assert isinstance(answer, DeleteRecordsResponse)
    return answer.topics[0].partitions[0]


def keyed(*pairs: tuple[bytes | None, bytes | None]) -> bytes:
    """A batch of these keys and values."""
    records = [Record(key, value) for key, value in pairs]
    return encode_batch(
        base_offset=0, leader_epoch=-1, timestamp_ms=1_700_000_000_000, records=records
    )


def batches_of(brokers: PythonBrokers, broker_id: int, topic_id: UUID, offset: int = 0) -> list[Batch]:  # fmt: skip
    """All batches with records from `offset` on that a consumer may have. Compaction may leave batches without any."""
    found: list[Batch] = []
    while True:
        answer = brokers.fetch(broker_id, topic_id, offset)
        assert not answer.error_code, answer
        data = memoryview(answer.records or b"")
        if not data:
            return found
        position = 0
        while position + HEADER_BYTES <= len(data):
            header = batch_at(data, position, position, len(data))
            if header.record_count:
                batches, cut = split_batches(data[position : header.end_position])
                assert not cut
                found += batches
            position, offset = header.end_position, header.end_offset


def newest_values(batches: Iterable[Batch]) -> dict[bytes | None, bytes | None]:
    """The values that a reader of a compacted topic has at its end."""
    return {each.key: each.value for batch in batches for each in decode_records(batch)}
