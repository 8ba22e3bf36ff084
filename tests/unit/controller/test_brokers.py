"""Registration, heartbeats, controlled shutdown: commands on a view, records replayed by the real image."""

from typing import Any
from uuid import UUID

import pytest

from quorum_node.controller.broker_partitions import suspicious
from quorum_node.controller.decision import Decision
from quorum_node.controller.feature_levels import OF_A_NEW_CLUSTER
from quorum_node.controller.heartbeats import fence_expired, heartbeat, next_expiry_ms
from quorum_node.controller.leases import BrokerLeases
from quorum_node.controller.partition_repair import MAX_LOOKS, repair_some
from quorum_node.controller.registration import register_broker, unregister_broker
from quorum_node.controller.view import View
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.protocol.broker_registration import (
    RegisteredListener,
    SupportedFeatureRange,
    UnregisterBrokerRequest,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.records.identity import ReplicaKey
from quorum_node.records.metadata import (
    ConfigRecord,
    FeatureLevelRecord,
    PartitionRecord,
    TopicRecord,
)
from support import broker_requests
from support.broker_requests import registration
from support.controller_env import CLUSTER_ID

TOPIC_ID = UUID(int=1 << 70)


class Cluster:
    """A controller's state; what is decided is replayed at once."""

    def __init__(self) -> None:
        self.image = ClusterImage().replay_all(
            FeatureLevelRecord(name=name, feature_level=level)
            for name, level in OF_A_NEW_CLUSTER.items()
        )
        self.leases = BrokerLeases(9000)
        self.now_ms = 0.0
        self.offset = 10
        self.stale_offset = 0

    def view(self) -> View:
        """Now."""
        return View(
            image=self.image,
            leases=self.leases,
            now_ms=self.now_ms,
            fresh_uuid=lambda: UUID(int=5),
            random=lambda n: 0,
            leader_epoch=1,
            next_offset=self.offset,
            cluster_id=CLUSTER_ID,
            node_id=1,
            voters=(ReplicaKey(1),),
            stale_offset=self.stale_offset,
        )

    def take(self, decision: Decision) -> Any:
        """Replay, and the answer."""
        self.image = self.image.replay_all(decision.records)
        self.offset += len(decision.records)
        return decision.answer

    def register(self, broker_id: int, incarnation: int = 1, **fields: Any) -> Any:
        """A process of a broker starts."""
        return self.take(
            register_broker(self.view(), registration(broker_id, incarnation, **fields))
        )

    def beat(self, broker_id: int, epoch: int, offset: int | None = None, **fields: Any) -> Any:
        """A heartbeat; without an offset, of a broker that has everything."""
        had = self.offset - 1 if offset is None else offset
        request = broker_requests.heartbeat(broker_id, epoch, had, **fields)
        return self.take(heartbeat(self.view(), request))

    def active(self, *broker_ids: int) -> list[int]:
        """Brokers that are unfenced; their epochs."""
        epochs = [self.register(each).broker_epoch for each in broker_ids]
        for broker_id, epoch in zip(broker_ids, epochs, strict=True):
            assert not self.beat(broker_id, epoch).is_fenced
        return epochs

    def topic(self, *partitions: tuple[tuple[int, ...], tuple[int, ...]], **configs: str) -> None:
        """Topic `t`; each partition by replicas and ISR, led by the first of the ISR."""
        records: list[Any] = [TopicRecord(name="t", topic_id=TOPIC_ID)]
        for name, value in configs.items():
            records.append(
                ConfigRecord(
                    resource_type=2, resource_name="t", name=name.replace("_", "."), value=value
                )
            )
        for number, (replicas, isr) in enumerate(partitions):
            records.append(
                PartitionRecord(
                    partition_id=number,
                    topic_id=TOPIC_ID,
                    replicas=replicas,
                    isr=isr,
                    removing_replicas=(),
                    adding_replicas=(),
                    leader=isr[0],
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=tuple(UUID(int=1) for _ in replicas),
                )
            )
        self.take(Decision(tuple(records)))

    def repair(self) -> int:
        """What maintenance does until it has nothing to do; the number of changes."""
        keys, changes, ended = suspicious(self.image), 0, False
        while not ended:
            decision, ended = repair_some(self.view(), keys)
            self.take(decision)
            changes += len(decision.records)
        return changes

    def state(self, partition_id: int = 0) -> tuple[int, tuple[int, ...], int, int]:
        """Leader, ISR, leader epoch, partition epoch."""
        found = self.image.topics.partition(TOPIC_ID, partition_id)
        assert found is not None
        return found.leader, found.isr, found.leader_epoch, found.partition_epoch

    def eligible(self, partition_id: int) -> tuple[int, ...]:
        """Eligible leader replicas."""
        found = self.image.topics.partition(TOPIC_ID, partition_id)
        assert found is not None
        return found.eligible_leader_replicas or ()


@pytest.mark.requirement("K631-08")
def test_broker_is_fenced_until_it_has_applied_its_own_registration() -> None:
    cluster = Cluster()
    epoch = cluster.register(7).broker_epoch
    assert epoch == 10
    behind = cluster.beat(7, epoch, 9)
    assert (behind.is_fenced, behind.is_caught_up) == (True, False)
    there = cluster.beat(7, epoch, 10)
    assert (there.is_fenced, there.is_caught_up) == (False, True)
    assert cluster.image.brokers.is_active(7)


@pytest.mark.requirement("K631-08")
def test_new_process_takes_over_the_id_and_the_old_one_is_rejected_at_its_next_heartbeat() -> None:
    cluster = Cluster()
    (old,) = cluster.active(7)
    new = cluster.register(7, incarnation=2)
    assert new.error_code == 0
    assert new.broker_epoch > old
    assert not cluster.image.brokers.is_active(7), "the new process is fenced at first"
    assert cluster.beat(7, old).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert not cluster.beat(7, new.broker_epoch).is_fenced
    again = cluster.register(7, incarnation=2)
    assert again.broker_epoch == new.broker_epoch, "the same process amends its registration"
    assert cluster.image.brokers.is_active(7)


def listener(**fields: Any) -> RegisteredListener:
    given = {"name": "A", "host": "here", "port": 9092, "security_protocol": 0, **fields}
    return RegisteredListener(**given)


@pytest.mark.requirement("K631-08")
@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"features": ()}, ErrorCode.UNSUPPORTED_VERSION),
        (
            {
                "features": tuple(
                    SupportedFeatureRange(
                        name=name, min_supported_version=0, max_supported_version=level - 1
                    )
                    for name, level in OF_A_NEW_CLUSTER.items()
                )
            },
            ErrorCode.UNSUPPORTED_VERSION,
        ),
        (
            {
                "features": tuple(
                    SupportedFeatureRange(
                        name=name, min_supported_version=level + 1, max_supported_version=level + 9
                    )
                    for name, level in OF_A_NEW_CLUSTER.items()
                )
            },
            ErrorCode.UNSUPPORTED_VERSION,
        ),
        ({"log_dirs": ()}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": (UUID(int=1),)}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": (UUID(int=1 << 90),) * 2}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": (UUID(int=(8 << 64) + (1 << 32)),)}, ErrorCode.INVALID_REGISTRATION),
        ({"is_migrating_zk_broker": True}, ErrorCode.BROKER_ID_NOT_REGISTERED),
        ({"broker_id": -1}, ErrorCode.INVALID_REGISTRATION),
        ({"listeners": (listener(name=""),)}, ErrorCode.INVALID_REGISTRATION),
        ({"listeners": (listener(host=" "),)}, ErrorCode.INVALID_REGISTRATION),
        ({"listeners": (listener(port=0),)}, ErrorCode.INVALID_REGISTRATION),
        ({"listeners": (listener(security_protocol=4),)}, ErrorCode.INVALID_REGISTRATION),
        ({"listeners": (listener(security_protocol=-1),)}, ErrorCode.INVALID_REGISTRATION),
        ({"listeners": (listener(), listener(port=1))}, ErrorCode.INVALID_REGISTRATION),
        (
            {"listeners": tuple(listener(name=str(n)) for n in range(101))},
            ErrorCode.INVALID_REGISTRATION,
        ),
        ({"features": broker_requests.FEATURES * 500}, ErrorCode.INVALID_REGISTRATION),
        (
            {"log_dirs": tuple(UUID(int=(9 << 64) + n) for n in range(1001))},
            ErrorCode.INVALID_REGISTRATION,
        ),
    ],
)
def test_invalid_registration_is_rejected(fields: dict[str, Any], error: ErrorCode) -> None:
    cluster = Cluster()
    cluster.register(8)
    before = cluster.image
    answer = cluster.register(**{"broker_id": 7, **fields})
    assert (answer.error_code, answer.broker_epoch) == (error, -1)
    assert cluster.image is before


def test_heartbeat_with_too_many_directories_is_rejected() -> None:
    cluster = Cluster()
    epoch = cluster.register(7).broker_epoch
    before = cluster.image
    directories = tuple(UUID(int=(9 << 64) + n) for n in range(1001))
    answer = cluster.beat(7, epoch, cordoned_log_dirs=directories)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert cluster.image is before
    assert cluster.beat(7, epoch, cordoned_log_dirs=directories[1:]).error_code == ErrorCode.NONE


@pytest.mark.requirement("K631-08")
def test_broker_with_stale_metadata_is_fenced_until_it_catches_up() -> None:
    cluster = Cluster()
    (epoch,) = cluster.active(7)
    cluster.stale_offset = cluster.offset + 5
    assert cluster.beat(7, epoch, cluster.offset).is_fenced
    assert not cluster.image.brokers.is_active(7)
    assert not cluster.beat(7, epoch, cluster.stale_offset - 1).is_fenced
    assert cluster.image.brokers.is_active(7)


@pytest.mark.requirement("K631-08", "KV3-01")
def test_expired_lease_fences_the_broker_and_moves_its_leaders() -> None:
    cluster = Cluster()
    _, second = cluster.active(7, 8)
    cluster.topic(((7, 8), (7, 8)), ((8, 7), (8, 7)), ((7, 8), (7,)))
    assert next_expiry_ms(cluster.view()) == 9000
    cluster.now_ms = 8000
    cluster.beat(8, second)
    cluster.now_ms = 9000
    cluster.take(fence_expired(cluster.view()))
    assert not cluster.image.brokers.is_active(7)
    assert cluster.image.brokers.is_active(8)
    assert cluster.repair() == 3
    assert cluster.state(0) == (8, (8,), 1, 1)
    assert cluster.state(1) == (8, (8,), 0, 1)
    assert cluster.state(2) == (-1, (), 1, 1), "no replica of the ISR is live: no leader"
    assert cluster.eligible(2) == (7,), "the ISR is kept"
    assert cluster.repair() == 0


@pytest.mark.requirement("KV3-01", "KV3-06")
def test_returning_broker_leads_partitions_that_waited_for_it() -> None:
    cluster = Cluster()
    (epoch,) = cluster.active(7)
    cluster.active(8)
    cluster.topic(((7, 8), (7,)))
    cluster.beat(7, epoch, want_fence=True)
    cluster.repair()
    assert cluster.state()[0] == -1
    cluster.beat(7, epoch)
    assert cluster.repair() == 1
    assert cluster.state() == (7, (7,), 2, 2)


@pytest.mark.requirement("KV3-01")
def test_data_loss_is_possible_only_if_the_topic_allows_it() -> None:
    cluster = Cluster()
    (epoch,) = cluster.active(7)
    cluster.active(8)
    cluster.topic(((7, 8), (7,)), unclean_leader_election_enable="true")
    cluster.beat(7, epoch, want_fence=True)
    cluster.repair()
    assert cluster.state() == (8, (8,), 1, 1)
    found = cluster.image.topics.partition(TOPIC_ID, 0)
    assert found is not None
    assert found.leader_recovery_state == 1, "the leader recovery state is missing"


@pytest.mark.requirement("K631-09")
def test_controlled_shutdown_waits_until_leaders_have_moved_and_brokers_know_it() -> None:
    cluster = Cluster()
    leaving, staying = cluster.active(7, 8)
    cluster.topic(((7, 8), (7, 8)))
    first = cluster.beat(7, leaving, want_shut_down=True)
    assert (first.should_shut_down, first.is_fenced) == (False, False)
    cluster.beat(8, staying)  # it knows of the shutdown, but not of later changes
    assert cluster.repair() == 1
    assert cluster.state() == (8, (8,), 1, 1)
    second = cluster.beat(7, leaving, want_shut_down=True)
    assert not second.should_shut_down, "broker 8 has not applied the record yet"
    cluster.beat(8, staying)
    third = cluster.beat(7, leaving, want_shut_down=True)
    assert (third.should_shut_down, third.is_fenced) == (True, True)
    new = cluster.register(7, incarnation=2)
    assert not cluster.beat(7, new.broker_epoch).is_fenced


@pytest.mark.requirement("K631-09")
def test_controlled_shutdown_does_not_wait_for_other_stopping_brokers() -> None:
    """Two that wait for each other to know what they have stopped to replay would never end."""
    cluster = Cluster()
    one, other, staying = cluster.active(7, 8, 9)
    cluster.topic(((7, 9), (7, 9)), ((8, 9), (8, 9)))
    for broker_id, epoch in ((7, one), (8, other)):
        assert not cluster.beat(broker_id, epoch, other, want_shut_down=True).should_shut_down
    cluster.repair()
    for broker_id, epoch in ((7, one), (8, other)):
        assert not cluster.beat(broker_id, epoch, other, want_shut_down=True).should_shut_down
    cluster.beat(9, staying)
    for broker_id, epoch in ((7, one), (8, other)):
        assert cluster.beat(broker_id, epoch, other, want_shut_down=True).should_shut_down


@pytest.mark.requirement("K631-09")
def test_broker_without_leaderships_may_shut_down_immediately() -> None:
    cluster = Cluster()
    leaving, _ = cluster.active(7, 8)
    cluster.topic(((8, 7), (8, 7)))
    assert cluster.beat(7, leaving, want_shut_down=True).should_shut_down
    cluster.repair()
    assert cluster.state()[:2] == (8, (8,))


def test_failed_directory_is_removed_from_the_registration() -> None:
    cluster = Cluster()
    directories = (UUID(int=1 << 80), UUID(int=1 << 81))
    epoch = cluster.register(7, log_dirs=directories).broker_epoch
    cluster.beat(7, epoch)
    cluster.beat(7, epoch, offline_log_dirs=directories[:1])
    broker = cluster.image.brokers.get(7)
    assert broker is not None
    assert broker.log_dirs == directories[1:]


def test_unregistered_broker_is_removed_and_its_partitions_get_other_leaders() -> None:
    cluster = Cluster()
    cluster.active(7, 8)
    cluster.topic(((7, 8), (7, 8)))
    answer = cluster.take(unregister_broker(cluster.view(), UnregisterBrokerRequest(broker_id=7)))
    assert answer.error_code == 0
    assert cluster.repair() == 1
    assert cluster.state()[:2] == (8, (8,))
    again = cluster.take(unregister_broker(cluster.view(), UnregisterBrokerRequest(broker_id=7)))
    assert again.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


@pytest.mark.requirement("KV3-02")
def test_ten_thousand_partitions_of_a_failed_broker_change_in_a_few_decisions() -> None:
    cluster = Cluster()
    epoch = cluster.active(7, 8, 9)[0]
    cluster.topic(*[((7, 8, 9), (7, 8, 9))] * 10_000)
    cluster.beat(7, epoch, want_fence=True)
    keys, decisions, ended = suspicious(cluster.image), [], False
    while not ended:
        decision, ended = repair_some(cluster.view(), keys)
        cluster.take(decision)
        decisions.append(len(decision.records))
    assert sum(decisions) == 10_000
    assert len([each for each in decisions if each]) == 4
    assert cluster.state(9_999) == (8, (8, 9), 1, 1)


@pytest.mark.requirement("KV3-02")
def test_partitions_of_a_broker_failed_earlier_do_not_block_the_loop() -> None:
    """Another broker fails later: the walk over those of the first one, all in order, pauses like any other."""
    cluster = Cluster()
    epochs = cluster.active(7, 8, 9)
    cluster.topic(*[((7, 8), (8,))] * (3 * MAX_LOOKS), ((9, 8), (9, 8)))
    cluster.beat(7, epochs[0], want_fence=True)
    cluster.beat(9, epochs[2], want_fence=True)
    keys, turns, ended = suspicious(cluster.image), 0, False
    while not ended:
        decision, ended = repair_some(cluster.view(), keys)
        cluster.take(decision)
        turns += 1
    assert turns == 4
    assert cluster.state(3 * MAX_LOOKS) == (8, (8,), 1, 1)
