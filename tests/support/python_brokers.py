"""Brokers of this software on a quorum of ours: started, killed, terminated, and queried over Kafka's protocol.

Every broker has its own directories, ports and log file. Waits are for a condition that a broker reports over the wire. The tests check
the results.
"""

import contextlib
import ssl
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self
from uuid import UUID

from quorum_node.protocol import broker_apis, create_topics
from quorum_node.protocol.api import Api
from quorum_node.protocol.apis import CREATE_TOPICS
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchResponsePartition,
    FetchTopic,
)
from quorum_node.protocol.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from quorum_node.protocol.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from quorum_node.records.batches import Record, decode_records, encode_batch, split_batches
from quorum_node.schema.schema import MalformedMessage, Message
from support.local_quorum import LocalNode, LocalQuorum, wait_until
from support.one_request import ask
from support.ports import free_ports

FIRST_BROKER_ID = 201
_UNFENCED = "the broker is unfenced"
_NOT_SERVED = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_ID,
)


class PythonBrokers:
    """Brokers 201.. Use as a context manager: it ends every process."""

    def __init__(
        self,
        quorum: LocalQuorum,
        root: Path,
        brokers: int,
        first_id: int = FIRST_BROKER_ID,
        **properties: str,
    ) -> None:
        self._quorum = quorum
        self._properties = {key.replace("_", "."): value for key, value in properties.items()}
        self.tls: ssl.SSLContext | None = None
        """The TLS context of requests; None: in clear text."""
        self.nodes: dict[int, LocalNode] = {}
        for index, port in enumerate(free_ports(brokers)):
            self._make(root, first_id + index, port)

    def _make(self, root: Path, broker_id: int, port: int) -> None:
        folder = root / f"broker-{broker_id}"
        folder.mkdir(parents=True)
        host, prefix = self.place_of(broker_id)
        node = LocalNode(broker_id, folder, port, free_ports(1)[0], host=host, prefix=prefix)
        servers = ",".join(f"{each.host}:{each.port}" for each in self._quorum.nodes.values())
        pairs = {
            "process.roles": "broker",
            "unstable.broker.role.enable": "true",
            "node.id": str(broker_id),
            "listeners": f"PLAINTEXT://{host}:{port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": servers,
            "metadata.log.dir": str(node.data_dir),
            "log.dirs": str(folder / "logs"),
            "admin.listener": node.admin_url,
            "failure.latch.file": str(folder / "failed"),
            "metadata.log.reserve.bytes": "1048576",
            "broker.heartbeat.interval.ms": "200",
            **self._properties,
            **self.properties_of(node),
        }
        text = "".join(f"{key}={value}\n" for key, value in pairs.items())
        (folder / "node.properties").write_text(text)
        self.nodes[broker_id] = node

    def properties_of(self, node: LocalNode) -> dict[str, str]:
        """Additional properties of one broker."""
        return {}

    def place_of(self, broker_id: int) -> tuple[str, tuple[str, ...]]:
        """Where a broker runs: its address, and the prefix of its command line."""
        return "127.0.0.1", ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for node in self.nodes.values():
            if node.is_running and node.process is not None:
                with contextlib.suppress(ProcessLookupError):
                    node.process.kill()
                    node.process.wait(60)

    @property
    def bootstrap(self) -> str:
        """Addresses of the brokers, whether they run or not."""
        return ",".join(f"{node.host}:{node.port}" for node in self.nodes.values())

    def log_folder(self, broker_id: int, topic: str, partition: int = 0) -> Path:
        """The folder of a replica of a partition."""
        return self.nodes[broker_id].root / "logs" / f"{topic}-{partition}"

    def start(self) -> None:
        """Start all that are not running; returns when all of them are unfenced, with registrations of these runs."""
        for node in self.nodes.values():
            if not node.is_running:
                before = node.log_text.count(_UNFENCED)
                node.start()
                self._wait_unfenced(node, before)
        self.wait_for(self.nodes)

    def _wait_unfenced(self, node: LocalNode, before: int) -> None:
        def is_unfenced() -> bool:
            assert node.is_running, node.log_text[-2000:]
            return node.log_text.count(_UNFENCED) > before

        wait_until(is_unfenced, f"broker {node.id} is unfenced", 60)

    def wait_for(self, ids: Iterable[int], among: Iterable[int] | None = None) -> None:
        """Wait until exactly these brokers of ours are live, according to each of them."""
        wanted, requested = set(ids), set(self.nodes if among is None else among)
        for broker_id in wanted:
            self._wait_one(broker_id, wanted, requested)

    def _wait_one(self, broker_id: int, wanted: set[int], requested: set[int]) -> None:
        node = self.nodes[broker_id]

        def knows() -> bool:
            assert node.is_running, node.log_text[-2000:]
            found = self.metadata(broker_id)
            return (
                found is not None and {each.node_id for each in found.brokers} & requested == wanted
            )

        wait_until(knows, f"broker {broker_id} knows {sorted(wanted)}", 60)

    # -- requests

    def ask(
        self,
        broker_id: int,
        api: Api,
        body: Message,
        version: int | None = None,
        timeout: float = 40.0,
    ) -> Message:
        """One request on a connection of its own. Raises OSError."""
        node = self.nodes[broker_id]
        wanted = api.max_version if version is None else version
        return ask((node.host, node.port), api, wanted, body, timeout, self.tls)

    def metadata(
        self, broker_id: int, topics: Sequence[str] | None = None
    ) -> MetadataResponse | None:
        """The Metadata answer of a broker; None if it does not answer."""
        requested = (
            None if topics is None else tuple(MetadataRequestTopic(name=name) for name in topics)
        )
        body = MetadataRequest(topics=requested, allow_auto_topic_creation=False)
        try:
            found = self.ask(broker_id, broker_apis.METADATA, body)
        except (OSError, MalformedMessage):
            return None
        assert isinstance(found, MetadataResponse)
        return found

    def create_topic(
        self, name: str, replicas: Sequence[int], partitions: int = 1, **configs: str
    ) -> UUID:
        """Sent to the first broker, which forwards it; returns the topic id when all of these brokers know it."""
        requested = next(iter(self.nodes))
        return self.create_topic_at(requested, name, replicas, replicas, partitions, **configs)

    def create_topic_at(
        self,
        requested: int,
        name: str,
        replicas: Sequence[int],
        told: Sequence[int],
        partitions: int = 1,
        **configs: str,
    ) -> UUID:
        """Sent to the broker `requested`; returns the topic id when those in `told` know it and its leaders serve it."""
        body = create_topics.CreateTopicsRequest(
            topics=(
                create_topics.CreatableTopic(
                    name=name,
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=tuple(
                        create_topics.CreatableReplicaAssignment(
                            partition_index=number, broker_ids=tuple(replicas)
                        )
                        for number in range(partitions)
                    ),
                    configs=tuple(
                        create_topics.CreatableTopicConfig(name=key.replace("_", "."), value=value)
                        for key, value in configs.items()
                    ),
                ),
            ),
            timeout_ms=10_000,
        )
        self._create(requested, body)
        for broker_id in told:
            wait_until(
                lambda broker_id=broker_id: all(  # type: ignore[misc]
                    self.leader(name, broker_id, number) is not None for number in range(partitions)
                ),
                f"broker {broker_id} knows {name}, and its leaders serve it",
                60,
            )
        found = self.metadata(told[0], [name])
        assert found is not None
        topic_id = found.topics[0].topic_id
        assert topic_id is not None
        return topic_id

    def _create(self, requested: int, body: create_topics.CreateTopicsRequest) -> None:
        """Repeated while the controllers elect a leader. An attempt that timed out may have been carried out."""
        codes: list[int] = []

        def created() -> bool:
            answer = self.ask(requested, CREATE_TOPICS, body)
            assert isinstance(answer, create_topics.CreateTopicsResponse)
            codes.append(answer.topics[0].error_code)
            repeated = ErrorCode.REQUEST_TIMED_OUT in codes
            if codes[-1] in (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT):
                return False
            assert not codes[-1] or (repeated and codes[-1] == ErrorCode.TOPIC_ALREADY_EXISTS), (
                answer
            )
            return True

        wait_until(created, f"{body.topics[0].name} is created", 60)

    def leader(self, topic: str, told_by: int, partition: int = 0) -> int | None:
        """The live leader of a partition according to a broker. If it is one of these brokers, it must serve the partition already: the metadata of other brokers names it earlier, and it refuses requests until then."""
        found = self.metadata(told_by, [topic])
        if found is None or found.topics[0].error_code:
            return None
        state = found.topics[0].partitions[partition]
        leader, topic_id = state.leader_id, found.topics[0].topic_id
        if state.error_code or (
            leader in self.nodes and not self._serves(leader, topic_id, partition)
        ):
            return None
        return leader

    def _serves(self, broker_id: int, topic_id: UUID | None, partition: int) -> bool:
        """Whether a broker answers as the leader of a partition. False for a broker that does not answer within five seconds."""
        assert topic_id is not None
        try:
            found = self.fetch(broker_id, topic_id, 0, partition, timeout=5.0)
        except (OSError, MalformedMessage):
            return False
        return found.error_code not in _NOT_SERVED

    def isr(self, topic: str, told_by: int, partition: int = 0) -> set[int]:
        """The ISR, according to a broker."""
        found = self.metadata(told_by, [topic])
        if found is None or found.topics[0].error_code:
            return set()
        return set(found.topics[0].partitions[partition].isr_nodes)

    def produce(
        self,
        broker_id: int,
        topic_id: UUID,
        values: Sequence[bytes],
        acks: int = -1,
        partition: int = 0,
        timeout_ms: int = 20_000,
    ) -> PartitionProduceResponse:
        """One batch of records without keys."""
        data = encode_batch(
            base_offset=0, leader_epoch=-1, timestamp_ms=1_700_000_000_000, records=[Record(None, value) for value in values]
        )  # fmt: skip
        return self.produce_bytes(broker_id, topic_id, data, acks, partition, timeout_ms)

    def produce_bytes(
        self,
        broker_id: int,
        topic_id: UUID,
        data: bytes,
        acks: int = -1,
        partition: int = 0,
        timeout_ms: int = 20_000,
    ) -> PartitionProduceResponse:
        """Produces the bytes as they are."""
        body = ProduceRequest(
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=(
                TopicProduceData(
                    topic_id=topic_id,
                    partition_data=(PartitionProduceData(index=partition, records=data),),
                ),
            ),
        )
        answer = self.ask(broker_id, broker_apis.PRODUCE, body)
        assert isinstance(answer, ProduceResponse)
        return answer.responses[0].partition_responses[0]

    def fetch(
        self,
        broker_id: int,
        topic_id: UUID,
        offset: int,
        partition: int = 0,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        timeout: float = 40.0,
    ) -> FetchResponsePartition:
        """Fetches as a consumer."""
        body = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            topics=(
                FetchTopic(
                    topic_id=topic_id,
                    partitions=(
                        FetchPartition(
                            partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20
                        ),
                    ),
                ),
            ),
        )
        answer = self.ask(broker_id, broker_apis.DATA_FETCH, body, timeout=timeout)
        assert isinstance(answer, FetchResponse), answer
        assert not answer.error_code, answer
        return answer.responses[0].partitions[0]

    def read_all(self, broker_id: int, topic_id: UUID, partition: int = 0) -> list[bytes]:
        """All values from the beginning that a consumer can read."""
        values: list[bytes] = []
        offset = 0
        while True:
            found = self.fetch(broker_id, topic_id, offset, partition)
            assert not found.error_code, found
            batches, left = split_batches(found.records or b"")
            assert not left, "whole batches"
            if not batches:
                return values
            for batch in batches:
                values += [each.value or b"" for each in decode_records(batch)]
                offset = batch.header.end_offset


@contextlib.contextmanager
def running_brokers(
    root: Path, brokers: int, *, of_controller: dict[str, str] | None = None, **properties: str
) -> Iterator[PythonBrokers]:
    """Unfenced brokers on a controller of their own. `properties`: of the brokers. `of_controller`: its own."""
    with (
        LocalQuorum(root / "quorum", nodes=1, properties=of_controller) as quorum,
        PythonBrokers(quorum, root / "brokers", brokers, FIRST_BROKER_ID, **properties) as made,
    ):
        quorum.form()
        made.start()
        yield made
