"""Simulated brokers and administrators: registrations, heartbeats, topics, ISR changes.

Owns the requests and their times. They go to the active controller, even a zombie in a network partition. Must not
know faults, nor results of requests.
"""

from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

from quorum_node.controller.alter_partition import alter_partition
from quorum_node.controller.decision import Decision
from quorum_node.controller.feature_levels import SUPPORTED
from quorum_node.controller.heartbeats import heartbeat
from quorum_node.controller.registration import register_broker
from quorum_node.controller.topic_deletion import delete_topics
from quorum_node.controller.topics import create_topics
from quorum_node.controller.view import View
from quorum_node.protocol.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    IsrMember,
)
from quorum_node.protocol.broker_registration import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    SupportedFeatureRange,
)
from quorum_node.protocol.create_topics import CreatableTopic, CreateTopicsRequest
from quorum_node.protocol.delete_topics import DeleteTopicsRequest
from quorum_simulation.control.controller import SimulatedController

if TYPE_CHECKING:
    from quorum_simulation.cluster import Cluster

FIRST_BROKER_ID = 1000
"""Voters have smaller ids."""
BROKERS = 4
HEARTBEAT_MS = 300.0
SILENCE_SHARE = 0.05
"""Share of heartbeats after which a broker is silent for longer than its session."""


_FEATURES = tuple(
    SupportedFeatureRange(
        name=name, min_supported_version=each.min_level, max_supported_version=each.max_level
    )
    for name, each in SUPPORTED.items()
)


class Brokers:
    """Start with `begin`; runs without end."""

    def __init__(self, cluster: "Cluster", random: Random) -> None:
        self._cluster = cluster
        self._random = random
        self._topics = 0

    def begin(self) -> None:
        """Start all brokers and administrators."""
        for broker_id in range(FIRST_BROKER_ID, FIRST_BROKER_ID + BROKERS):
            self._cluster.scheduler.after(self._random.random() * 50, self._live, broker_id)
        self._cluster.scheduler.after(100, self._administer)

    def _controller(self) -> SimulatedController | None:
        found = [
            host.controller
            for host in self._cluster.hosts.values()
            if host.up and host.controller is not None and host.controller.active.is_active
        ]
        return self._random.choice(found) if found else None

    def _live(self, broker_id: int) -> None:
        random, controller = self._random, self._controller()
        if controller is not None:
            broker = controller.image.brokers.get(broker_id)
            if broker is None or random.random() < 0.02:
                controller.do(lambda view: self._register(view, broker_id))
            else:
                epoch, offset = broker.broker_epoch, controller.applier.committed.end_offset
                controller.do(lambda view: _beat(view, broker_id, epoch, offset))
        pause_ms = HEARTBEAT_MS * (0.5 + random.random())
        if random.random() < SILENCE_SHARE:
            pause_ms += 3000
        self._cluster.scheduler.after(pause_ms, self._live, broker_id)

    def _register(self, view: View, broker_id: int) -> Decision:
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=view.cluster_id,
            incarnation_id=UUID(int=self._random.getrandbits(128) | 1),
            listeners=(),
            features=_FEATURES,
            rack=None,
            log_dirs=(UUID(int=(1 << 100) + broker_id),),
        )
        return register_broker(view, request)

    def _administer(self) -> None:
        controller = self._controller()
        if controller is not None:
            act = self._random.choice((self._create, self._create, self._shrink, self._delete))
            controller.do(act)
        self._cluster.scheduler.after(20 + self._random.random() * 150, self._administer)

    def _create(self, view: View) -> Decision:
        self._topics += 1
        factor = self._random.randint(1, 3)
        topic = CreatableTopic(
            name=f"topic-{self._topics}",
            num_partitions=self._random.randint(1, 4),
            replication_factor=factor,
        )
        return create_topics(view, CreateTopicsRequest(topics=(topic,)))

    def _delete(self, view: View) -> Decision:
        names = [topic.name for topic in view.image.topics.by_id.values()]
        if len(names) < 4:
            return Decision()
        chosen = self._random.choice(sorted(names))
        return delete_topics(view, DeleteTopicsRequest(topic_names=(chosen,), timeout_ms=1000))

    def _shrink(self, view: View) -> Decision:
        """A leader removes a follower from the ISR, or adds all of them again."""
        image = view.image
        topics = sorted(image.topics.by_id.values(), key=lambda each: each.name)
        if not topics:
            return Decision()
        topic = self._random.choice(topics)
        index, partition = self._random.choice(sorted(topic.partitions.items()))
        leader = image.brokers.get(partition.leader)
        if leader is None:
            return Decision()
        alive = [
            b for b in partition.replicas if (each := image.brokers.get(b)) and not each.fenced
        ]
        isr = alive if self._random.random() < 0.5 else [partition.leader]
        changed = AlteredPartition(
            partition_index=index,
            leader_epoch=partition.leader_epoch,
            new_isr_with_epochs=tuple(IsrMember(broker_id=b) for b in isr),
            partition_epoch=partition.partition_epoch,
        )
        request = AlterPartitionRequest(
            broker_id=leader.broker_id,
            broker_epoch=leader.broker_epoch,
            topics=(AlteredTopic(topic_id=topic.topic_id, partitions=(changed,)),),
        )
        return alter_partition(view, request)


def _beat(view: View, broker_id: int, epoch: int, offset: int) -> Decision:
    request = BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=epoch,
        current_metadata_offset=offset,
        want_fence=False,
        want_shut_down=False,
    )
    return heartbeat(view, request)
