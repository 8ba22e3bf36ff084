"""One sequence of failures under a stock controller and under ours: the same partition after every step (KIP-966)."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest

from quorum_node.controller.feature_levels import ANNOUNCED
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.partition import Partition
from quorum_node.protocol.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    AlterPartitionResponse,
    IsrMember,
)
from quorum_node.protocol.apis import APIS
from quorum_node.protocol.broker_registration import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    RegisteredListener,
    SupportedFeatureRange,
)
from quorum_node.protocol.configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from quorum_node.protocol.create_topics import CreateTopicsRequest, CreateTopicsResponse
from quorum_node.protocol.errors import ErrorCode
from quorum_node.records.batches import decode_records, split_batches
from quorum_node.records.metadata import decode_metadata
from quorum_node.schema.schema import Message
from support.controlled_cluster import assigned, directory_of
from support.java_quorum import LOG_DIRECTORY, JavaQuorum
from support.local_quorum import LocalQuorum
from support.one_request import ask

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(300)]
SESSION_MS = 2_000
TOPIC = 2
OUR_ID = 101
State = tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...], int, int]


class Side:
    """A controller with brokers 1, 2 and 3, which have no processes. Those in `wanted` keep their lease."""

    def __init__(self, port: int, cluster_id: str, folder: Path) -> None:
        self.address, self.cluster_id, self.folder = ("127.0.0.1", port), cluster_id, folder
        self.epochs: dict[int, int] = {}
        self.wanted: set[int] = set()
        self._processes = 0

    def ask(self, request: Message) -> Message:
        """The answer, at the newest version."""
        api = next(each for each in APIS.values() if each.request is type(request))
        return ask(self.address, api, api.max_version, request, 30.0)

    def register(self, broker_id: int, *, cleanly: bool = False) -> None:
        """A new process. A stock controller rejects it until the session of the previous one has ended."""
        self._processes += 1
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=self.cluster_id,
            incarnation_id=UUID(int=(7 << 100) + self._processes),
            listeners=(
                RegisteredListener(name="PLAINTEXT", host="127.0.0.1", port=1, security_protocol=0),
            ),
            features=tuple(
                SupportedFeatureRange(
                    name=name,
                    min_supported_version=each.min_level,
                    max_supported_version=each.max_level,
                )
                for name, each in ANNOUNCED.items()
            ),
            rack=None,
            log_dirs=(directory_of(broker_id),),
            previous_broker_epoch=self.epochs[broker_id] if cleanly else -1,
        )

        def registered() -> bool:
            answer = self.ask(request)
            assert isinstance(answer, BrokerRegistrationResponse)
            if answer.error_code == 0:
                self.epochs[broker_id] = answer.broker_epoch
            else:
                assert answer.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
            return answer.error_code == 0

        self.wanted.discard(broker_id)
        self.wait(registered, f"broker {broker_id} is registered")

    def unfence(self, broker_id: int) -> None:
        """It keeps its lease from now on."""
        self.wanted.add(broker_id)
        self.wait(lambda: not self.beat(broker_id).is_fenced, f"broker {broker_id} is unfenced")

    def fence(self, broker_id: int) -> None:
        """It requests to be fenced, and sends no more heartbeats."""
        self.wanted.discard(broker_id)
        assert self.beat(broker_id, want_fence=True).is_fenced

    def beat(self, broker_id: int, *, want_fence: bool = False) -> BrokerHeartbeatResponse:
        """One heartbeat."""
        answer = self.ask(
            BrokerHeartbeatRequest(
                broker_id=broker_id,
                broker_epoch=self.epochs[broker_id],
                current_metadata_offset=1 << 40,
                want_fence=want_fence,
                want_shut_down=False,
            )
        )
        assert isinstance(answer, BrokerHeartbeatResponse)
        assert answer.error_code == 0, answer
        return answer

    def beat_all(self) -> None:
        """Everybody who is to keep a lease."""
        for broker_id in self.wanted:
            self.beat(broker_id)

    def wait(self, done: Callable[[], bool], what: str) -> None:
        """Beat until it is so."""
        deadline = time.monotonic() + 60
        while not done():
            assert time.monotonic() < deadline, f"{what}: {self.state()}"
            self.beat_all()
            time.sleep(0.1)

    def reach(self, expected: State, step: str) -> None:
        """The partition comes to this state."""
        self.wait(lambda: self.state() == expected, step)

    def alter_isr(self, leader: int, *isr: int) -> None:
        """AlterPartition of the leader."""
        now, topic_id = self._partition()
        wanted = AlteredPartition(
            partition_index=0,
            leader_epoch=now.leader_epoch,
            partition_epoch=now.partition_epoch,
            new_isr_with_epochs=tuple(IsrMember(broker_id=each, broker_epoch=-1) for each in isr),
        )
        answer = self.ask(
            AlterPartitionRequest(
                broker_id=leader,
                broker_epoch=self.epochs[leader],
                topics=(AlteredTopic(topic_id=topic_id, partitions=(wanted,)),),
            )
        )
        assert isinstance(answer, AlterPartitionResponse)
        assert answer.topics[0].partitions[0].error_code == 0, answer

    def create(self) -> None:
        """Topic t on 1, 2 and 3."""
        topic = assigned("t", (1, 2, 3), min_insync_replicas="2")
        answer = self.ask(CreateTopicsRequest(topics=(topic,)))
        assert isinstance(answer, CreateTopicsResponse)
        assert answer.topics[0].error_code == 0, answer

    def set_min_insync_replicas(self, value: str) -> None:
        """Of topic t."""
        change = AlterableConfig(name="min.insync.replicas", config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=(change,))
        request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
        answer = self.ask(request)
        assert isinstance(answer, IncrementalAlterConfigsResponse)
        assert answer.responses[0].error_code == 0, answer

    def state(self) -> State:
        """Leader, ISR, eligible replicas, last known leader, recovery, leader epoch: as in the log on the disk."""
        now, _ = self._partition()
        return (
            now.leader,
            tuple(sorted(now.isr)),
            tuple(sorted(now.eligible_leader_replicas or ())),
            now.last_known_elr or (),
            now.leader_recovery_state,
            now.leader_epoch,
        )

    def _partition(self) -> tuple[Partition, UUID]:
        image = ClusterImage()
        for segment in sorted(self.folder.glob("*.log")):
            for batch in split_batches(segment.read_bytes())[0]:
                if not batch.header.is_control:
                    for record in decode_records(batch):
                        image = image.replay(decode_metadata(record.value or b""))
        topic = image.topics.named("t")
        assert topic is not None
        return topic.partitions[0], topic.topic_id


ControllerPair = tuple[Side, Side]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[ControllerPair]:
    """A stock controller and ours."""
    session = str(SESSION_MS)
    with (
        JavaQuorum(tmp_path / "stock", broker_session_timeout_ms=session) as java,
        LocalQuorum(
            tmp_path / "ours", 1, first_id=OUR_ID, broker_session_timeout_ms=session
        ) as quorum,
    ):
        java.start()
        quorum.form()
        java.describe()
        ours = quorum.leader.data_dir / LOG_DIRECTORY
        yield (
            Side(java.leader.port, java.cluster_id, java.leader.log_directory),
            Side(quorum.leader.port, quorum.cluster_id, ours),
        )


STEPS: tuple[tuple[Callable[[Side], None], State], ...] = (
    (lambda side: side.create(), (1, (1, 2, 3), (), (), 0, 0)),
    (lambda side: side.fence(2), (1, (1, 3), (), (), 0, 0)),
    (lambda side: side.fence(3), (1, (1,), (3,), (), 0, 0)),
    (lambda side: side.fence(1), (-1, (), (1, 3), (1,), 0, 1)),
    (lambda side: side.unfence(2), (-1, (), (1, 3), (1,), 0, 1)),
    (lambda side: side.unfence(3), (3, (3,), (1,), (), 0, 2)),
    (lambda side: side.register(1, cleanly=True), (3, (3,), (1,), (), 0, 2)),
    (lambda side: side.register(1), (3, (3,), (), (), 0, 2)),
    (lambda side: side.fence(3), (-1, (), (3,), (3,), 0, 3)),
    (lambda side: side.register(3, cleanly=True), (-1, (), (3,), (3,), 0, 3)),
    (lambda side: side.unfence(3), (3, (3,), (), (), 0, 4)),
    (lambda side: side.register(3), (-1, (), (), (3,), 0, 5)),
    (lambda side: side.unfence(1), (-1, (), (), (3,), 0, 5)),
    (lambda side: side.unfence(3), (3, (3,), (), (), 1, 6)),
    (lambda side: side.alter_isr(3, 3, 1), (3, (1, 3), (), (), 0, 6)),
    (lambda side: side.alter_isr(3, 3), (3, (3,), (1,), (), 0, 6)),
    (lambda side: side.set_min_insync_replicas("1"), (3, (3,), (), (), 0, 6)),
)


@pytest.mark.requirement("KV3-09")
def test_stock_controller_and_this_controller_keep_the_same_eligible_replicas(
    pair: ControllerPair,
) -> None:
    for side in pair:
        for broker_id in (1, 2, 3):
            side.register(broker_id)
            side.unfence(broker_id)
        for number, (step, expected) in enumerate(STEPS):
            step(side)
            side.reach(expected, f"step {number}")
