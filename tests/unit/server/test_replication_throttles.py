"""Which fetches a throttle holds back: those of replicas outside of the ISR, on the leader and on the follower."""

import asyncio
from pathlib import Path

import pytest

from quorum_node.controller.alter_partition import alter_partition
from quorum_node.controller.configs import incremental_alter_configs
from quorum_node.image.resource_types import BROKER, TOPIC
from quorum_node.protocol.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    AlterPartitionResponse,
    IsrMember,
)
from quorum_node.protocol.broker_apis import DATA_FETCH
from quorum_node.protocol.configs import (
    AlterableConfig,
    AlterConfigsResource,
    ConfigOperation,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from quorum_node.protocol.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchResponsePartition,
    FetchResponseTopic,
    FetchTopic,
    ReplicaState,
)
from quorum_node.server.broker.fetch_api import FetchApi
from support.data_batches import data_batch
from support.hosted_replicas import ME, OTHER, HostedReplicas, answered, produce

pytestmark = [pytest.mark.virtual_time, pytest.mark.requirement("KV3-04")]

RATE = 1_000
SECONDS = 20
LARGE_BYTES = RATE * SECONDS


class Throttles:
    """Topic t on both brokers; broker ME leads it, or follows."""

    def __init__(self, root: Path, *, leads: bool) -> None:
        self.hosted = HostedReplicas(root)
        self.replica = self.hosted.create("t", (ME, OTHER) if leads else (OTHER, ME))
        self.fetch_api = FetchApi(self.hosted.replicas, lambda broker_id, listener: None)

    def configure(self, kind: int, name: str, **configs: str) -> None:
        alterations = tuple(
            AlterableConfig(
                name=key.replace("_", "."), config_operation=ConfigOperation.SET, value=value
            )
            for key, value in configs.items()
        )
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=alterations)
        answer = self.hosted.cluster.ask(
            incremental_alter_configs,
            IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False),
            IncrementalAlterConfigsResponse,
        )
        assert not answer.responses[0].error_code, answer
        self.apply()

    def apply(self) -> None:
        self.hosted.replicas.apply(self.hosted.cluster.image)

    def set_isr(self, *isr: int) -> None:
        now = self.hosted.cluster.partition("t")
        members = tuple(
            IsrMember(broker_id=each, broker_epoch=self.hosted.cluster.epoch(each)) for each in isr
        )
        wanted = AlteredPartition(
            partition_index=0,
            leader_epoch=now.leader_epoch,
            partition_epoch=now.partition_epoch,
            new_isr_with_epochs=members,
        )
        request = AlterPartitionRequest(
            broker_id=now.leader,
            broker_epoch=self.hosted.cluster.epoch(now.leader),
            topics=(AlteredTopic(topic_id=self.replica.key.topic_id, partitions=(wanted,)),),
        )
        self.hosted.cluster.ask(alter_partition, request, AlterPartitionResponse)
        self.apply()

    def fetched(self, broker_id: int, offset: int) -> int:
        """Bytes of records that broker `broker_id`, or a consumer (-1), gets at once."""
        epoch = -1 if broker_id < 0 else self.hosted.cluster.epoch(broker_id)
        partition = FetchPartition(
            partition=0,
            current_leader_epoch=self.replica.core.leader_epoch,
            fetch_offset=offset,
            partition_max_bytes=1,  # one batch
        )
        topic = FetchTopic(topic="t", topic_id=self.replica.key.topic_id, partitions=(partition,))
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=broker_id, replica_epoch=epoch),
            max_wait_ms=0,
            min_bytes=1,
            topics=(topic,),
        )
        answer = answered(
            lambda inbound, body: self.fetch_api.handle(inbound, body), DATA_FETCH, request
        )
        assert isinstance(answer, FetchResponse)
        (found,) = answer.responses[0].partitions
        assert not found.error_code
        return len(found.records or b"")

    def requests(self) -> list[FetchRequest]:
        """Fetches that this broker has sent."""
        return [body for body, _ in self.hosted.peers.asked if isinstance(body, FetchRequest)]

    def answer(self, records: bytes) -> None:
        """Answer this broker's newest fetch."""
        _, done = self.hosted.peers.asked[-1]
        partition = FetchResponsePartition(
            partition_index=0,
            error_code=0,
            high_watermark=0,
            log_start_offset=0,
            records=records,
        )
        topic = FetchResponseTopic(topic_id=self.replica.key.topic_id, partitions=(partition,))
        done(FetchResponse(responses=(topic,)))


def bytes_of(offset: int) -> bytes:
    data = data_batch(offset, value_bytes=LARGE_BYTES).data
    assert isinstance(data, bytes)
    return data


async def test_leader_holds_records_back_from_a_throttled_follower_outside_of_the_isr(
    tmp_path: Path,
) -> None:
    made = Throttles(tmp_path, leads=True)
    made.set_isr(ME)
    made.configure(BROKER, str(ME), leader_replication_throttled_rate=str(RATE))
    made.configure(TOPIC, "t", leader_replication_throttled_replicas=f"0:{ME}")
    for _ in range(3):
        assert produce(made.replica, bytes_of(0))
    assert made.fetched(OTHER, 0) >= LARGE_BYTES
    assert made.fetched(OTHER, 1) == 0
    assert made.fetched(-1, 1) > 0, "consumers are never throttled"
    await asyncio.sleep(SECONDS)
    assert made.fetched(OTHER, 1) > 0
    assert made.fetched(OTHER, 2) == 0
    made.configure(BROKER, str(ME), leader_replication_throttled_rate=str(2**63 - 1))
    assert made.fetched(OTHER, 2) > 0
    made.hosted.close()


async def test_leader_does_not_throttle_members_of_the_isr(tmp_path: Path) -> None:
    made = Throttles(tmp_path, leads=True)
    made.configure(BROKER, "", leader_replication_throttled_rate="1")
    made.configure(TOPIC, "t", leader_replication_throttled_replicas="*")
    for _ in range(3):
        assert produce(made.replica, bytes_of(0))
    for offset in range(3):
        assert made.fetched(OTHER, offset) > 0
    made.hosted.close()


async def test_leader_does_not_throttle_followers_of_replicas_that_are_not_listed(
    tmp_path: Path,
) -> None:
    made = Throttles(tmp_path, leads=True)
    made.set_isr(ME)
    made.configure(BROKER, "", leader_replication_throttled_rate="1")
    made.configure(TOPIC, "t", leader_replication_throttled_replicas=f"0:{OTHER},1:{ME}")
    for _ in range(3):
        assert produce(made.replica, bytes_of(0))
    for offset in range(3):
        assert made.fetched(OTHER, offset) > 0
    made.hosted.close()


async def test_follower_outside_of_the_isr_pauses_its_fetches(tmp_path: Path) -> None:
    made = Throttles(tmp_path, leads=False)
    made.set_isr(OTHER)
    made.configure(BROKER, str(ME), follower_replication_throttled_rate=str(RATE))
    made.configure(TOPIC, "t", follower_replication_throttled_replicas=f"0:{ME}")
    await asyncio.sleep(0.1)
    count = len(made.requests())
    made.answer(bytes_of(0))
    assert made.replica.core.end_offset == 1
    await asyncio.sleep(SECONDS - 2)
    assert len(made.requests()) == count, "it waits"
    await asyncio.sleep(2)
    assert len(made.requests()) == count + 1
    made.answer(bytes_of(1))
    await asyncio.sleep(1)
    assert len(made.requests()) == count + 1
    made.set_isr(OTHER, ME)
    await asyncio.sleep(1)
    assert len(made.requests()) == count + 2, "a member of the ISR is not throttled"
    made.hosted.close()


async def test_follower_is_throttled_only_if_it_is_listed(tmp_path: Path) -> None:
    made = Throttles(tmp_path, leads=False)
    made.set_isr(OTHER)
    made.configure(BROKER, str(ME), follower_replication_throttled_rate="1")
    made.configure(TOPIC, "t", follower_replication_throttled_replicas=f"0:{OTHER}")
    await asyncio.sleep(0.1)
    for offset in range(3):
        count = len(made.requests())
        made.answer(bytes_of(offset))
        await asyncio.sleep(0.1)
        assert len(made.requests()) == count + 1
    made.hosted.close()
