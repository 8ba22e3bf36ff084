"""Brokers without data for a real controller: they register, send heartbeats, and report in-sync replicas.

The controller can't distinguish them from other brokers. A moving partition is in sync when the test says so. Owns a
thread that sends heartbeats until it is closed.
"""

import threading
from typing import TypeVar
from uuid import UUID

from quorum_node.protocol.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    AlterPartitionResponse,
    IsrMember,
)
from quorum_node.protocol.api import Api
from quorum_node.protocol.apis import (
    ALTER_PARTITION,
    BROKER_HEARTBEAT,
    BROKER_REGISTRATION,
    CREATE_TOPICS,
)
from quorum_node.protocol.broker_registration import (
    BrokerHeartbeatResponse,
    BrokerRegistrationResponse,
)
from quorum_node.protocol.create_topics import CreateTopicsRequest, CreateTopicsResponse
from quorum_node.protocol.errors import ErrorCode
from quorum_node.schema.schema import Message
from support.broker_requests import heartbeat, registration
from support.controlled_cluster import assigned
from support.one_request import ask

_HEARTBEAT_S = 1.0
_APPLIED_ALL = 1 << 40

M = TypeVar("M", bound=Message)


class DatalessBrokers:
    """Brokers `ids`, unfenced, of the cluster whose only controller listens at `address`. A context manager."""

    def __init__(self, address: tuple[str, int], cluster_id: str, ids: range) -> None:
        self._address = address
        self._epochs = {each: self._register(each, cluster_id) for each in ids}
        self._topics: dict[str, UUID] = {}
        self._over = threading.Event()
        self._beat()
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()

    def __enter__(self) -> "DatalessBrokers":
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join(10)

    def create(self, topic: str, *replicas: tuple[int, ...]) -> None:
        """A topic whose partitions have these replicas."""
        request = CreateTopicsRequest(topics=(assigned(topic, *replicas),))
        made = self._ask(CREATE_TOPICS, request, CreateTopicsResponse).topics[0]
        assert made.error_code == 0, made
        assert made.topic_id is not None
        self._topics[topic] = made.topic_id

    def arrive(self, topic: str, partition_id: int, leader: int, isr: list[int]) -> None:
        """The leader reports that all of these are in sync: the first change of a partition after a move began."""
        altered = AlteredPartition(
            partition_index=partition_id,
            leader_epoch=0,
            partition_epoch=1,
            new_isr_with_epochs=tuple(
                IsrMember(broker_id=each, broker_epoch=self._epochs[each]) for each in isr
            ),
        )
        request = AlterPartitionRequest(
            broker_id=leader,
            broker_epoch=self._epochs[leader],
            topics=(AlteredTopic(topic_id=self._topics[topic], partitions=(altered,)),),
        )
        answer = self._ask(ALTER_PARTITION, request, AlterPartitionResponse)
        assert answer.error_code == 0, answer
        accepted = (ErrorCode.NONE, ErrorCode.NEW_LEADER_ELECTED)
        assert answer.topics[0].partitions[0].error_code in accepted, answer

    def _register(self, broker_id: int, cluster_id: str) -> int:
        request = registration(broker_id, cluster_id=cluster_id)
        answer = self._ask(BROKER_REGISTRATION, request, BrokerRegistrationResponse)
        assert answer.error_code == 0, answer
        return answer.broker_epoch

    def _beat(self) -> None:
        for broker_id, epoch in self._epochs.items():
            request = heartbeat(broker_id, epoch, _APPLIED_ALL)
            self._ask(BROKER_HEARTBEAT, request, BrokerHeartbeatResponse)

    def _live(self) -> None:
        while not self._over.wait(_HEARTBEAT_S):
            self._beat()

    def _ask(self, api: Api, request: Message, answer: type[M]) -> M:
        reported = ask(self._address, api, api.max_version, request)
        assert isinstance(reported, answer)
        return reported
