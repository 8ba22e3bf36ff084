"""What each act of a round does: one generator per act, which reports what it did, and after its time takes it back.

Owns the conditions under which an act is not done. When it occurs is in the plan.
"""

import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from uuid import UUID

from quorum_node.protocol.alter_replica_log_dirs import (
    ALTER_REPLICA_LOG_DIRS,
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from quorum_node.protocol.apis import ELECT_LEADERS
from quorum_node.protocol.delete_records import (
    DELETE_RECORDS,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from quorum_node.protocol.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.list_offsets import LATEST_TIMESTAMP
from quorum_node.records.batches import Record, encode_batch
from support.local_quorum import wait_until
from support.random_faults import partition_requests
from support.random_faults.cluster import DISK, NO_ANSWER, BrokerBusy, Cluster, partition_of
from support.random_faults.plan import Act, is_stock

Doing = Iterator[str]
MIN_ISR = 2
REFUSED = (*NO_ANSWER, BrokerBusy)
_CHANGES = (
    ("segment.ms", "100"),
    ("segment.ms", "2000"),
    ("compression.type", "lz4"),
    ("compression.type", "gzip"),
    ("compression.type", "producer"),
    ("index.interval.bytes", "64"),
    ("flush.messages", "1"),
    ("message.timestamp.type", "LogAppendTime"),
    ("max.message.bytes", "900000"),
)
_RESTORED_S, _HEALS_S = 60.0, 5.0


class NotDone(Exception):
    """The act would be more than the partitions can bear, or there is nothing to do."""


@dataclass(slots=True)
class AdditionalTopic:
    """A topic that an act created. `acknowledged`: offset to value, of the only partition."""

    topic_id: UUID
    replicas: tuple[int, ...]
    acknowledged: dict[int, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class Stage:
    """What the acts work on. `loaded`: topics under load with the number of partitions, of which no replica is removed for good."""

    cluster: Cluster
    loaded: dict[str, int]
    additional: dict[str, AdditionalTopic] = field(default_factory=dict)
    deleted_to: dict[tuple[str, int], int] = field(default_factory=dict)
    """Highest offset before which records were asked to be deleted, by topic and partition."""

    def partition(self, rank: int) -> tuple[str, int]:
        """A partition under load."""
        every = [(name, each) for name, count in self.loaded.items() for each in range(count)]
        return every[rank % len(every)]


def kill(stage: Stage, act: Act) -> Doing:
    with stage.cluster.held(act.broker):
        stage.cluster.kill(act.broker)
        yield f"broker {act.broker}"
        stage.cluster.run(act.broker)


def kill_all(stage: Stage, act: Act) -> Doing:
    with ExitStack() as held:
        killed = []
        for broker_id in sorted(stage.cluster.ours.nodes):
            held.enter_context(stage.cluster.held(broker_id))
        for broker_id in sorted(stage.cluster.ours.nodes):
            stage.cluster.kill(broker_id)
            killed.append(broker_id)
        yield f"brokers {killed}"
        for broker_id in killed:
            stage.cluster.run(broker_id)


def terminate(stage: Stage, act: Act) -> Doing:
    with stage.cluster.held(act.broker):
        code = stage.cluster.stop(act.broker)
        yield f"broker {act.broker}, exit code {code}"
        stage.cluster.run(act.broker)


def freeze(stage: Stage, act: Act) -> Doing:
    with stage.cluster.held(act.broker):
        stage.cluster.send(act.broker, signal.SIGSTOP)
        try:
            yield f"broker {act.broker}"
        finally:
            stage.cluster.send(act.broker, signal.SIGCONT)


def cut_link(stage: Stage, act: Act) -> Doing:
    others = [each for each in stage.cluster.plan.brokers if each != act.broker]
    other = others[act.rank % len(others)]
    yield from _cut(stage, act, [other], f"between brokers {act.broker} and {other}")


def cut_controllers(stage: Stage, act: Act) -> Doing:
    controllers = list(stage.cluster.quorum.nodes)
    yield from _cut(stage, act, controllers, f"between broker {act.broker} and all controllers")


def _cut(stage: Stage, act: Act, others: list[int], told: str) -> Doing:
    stage.cluster.cut(act.broker, others)
    try:
        yield told
    finally:
        stage.cluster.restore(act.broker, others)


def kill_controller(stage: Stage, act: Act) -> Doing:
    nodes = [each for each in stage.cluster.quorum.nodes.values() if each.is_running]
    if len(nodes) < len(stage.cluster.quorum.nodes):
        raise NotDone("another controller is down")
    node = nodes[act.rank % len(nodes)]
    node.kill()
    yield f"controller {node.id}"
    node.start()


def fill_directory(stage: Stage, act: Act) -> Doing:
    disk = stage.cluster.disks[act.broker]
    if act.broker in stage.cluster.damaged:
        raise NotDone("its directory is damaged already")
    stage.cluster.damaged.add(act.broker)
    disk.fill()
    yield f"directory {DISK} of broker {act.broker}"
    # A full directory counts as failed until the next start.
    with stage.cluster.held(act.broker, _RESTORED_S):
        stage.cluster.stop(act.broker)
        disk.free()
        stage.cluster.run(act.broker)
    stage.cluster.damaged.discard(act.broker)


def lose_directory(stage: Stage, act: Act) -> Doing:
    """Everything in it is gone: not only what was not synced, as after the repair it is replaced by an empty one."""
    cluster = stage.cluster
    if act.broker in cluster.damaged:
        raise NotDone("its directory is damaged already")
    cluster.damaged.add(act.broker)
    deadline = time.monotonic() + _HEALS_S
    while (missing := _irreplaceable(cluster, act.broker)) is not None:
        if time.monotonic() > deadline:
            cluster.damaged.discard(act.broker)
            raise NotDone(missing)
        time.sleep(0.2)
    disk = cluster.disks[act.broker]
    disk.shut_down()
    yield f"directory {DISK} of broker {act.broker}"
    with cluster.held(act.broker, _RESTORED_S):
        cluster.stop(act.broker)
        disk.remount()
        shutil.rmtree(cluster.ours.directory(act.broker, DISK), ignore_errors=True)
        cluster.run(act.broker)
    cluster.damaged.discard(act.broker)


def _irreplaceable(cluster: Cluster, broker_id: int) -> str | None:
    """A partition of which the other replicas in the ISR are too few to lose this one."""
    topics = cluster.topics()
    for name, topic in topics.items():
        for each in topic.partitions:
            others = set(each.isr_nodes) - {broker_id}
            if broker_id in each.replica_nodes and len(others) < MIN_ISR:
                return f"{name}-{each.partition_index} has the ISR {each.isr_nodes}"
    return None if topics else "no broker answers"


def create_topic(stage: Stage, act: Act) -> Doing:
    """With three records in its only partition."""
    brokers = stage.cluster.plan.brokers
    turn = act.rank % len(brokers)
    replicas = (*brokers[turn:], *brokers[:turn])
    name = f"additional-{act.rank}"
    configs = {"min.insync.replicas": str(MIN_ISR), "segment.ms": "200"}
    topic_id = partition_requests.create_topic(stage.cluster, name, [replicas], configs)
    topic = stage.additional[name] = AdditionalTopic(topic_id, replicas)
    deadline = time.monotonic() + 5
    while len(topic.acknowledged) < 3 and time.monotonic() < deadline:
        _write_one(stage.cluster, name, topic, f"{name}-{len(topic.acknowledged)}".encode())
    yield f"{name} on {replicas}, {len(topic.acknowledged)} records are acknowledged"


def _write_one(cluster: Cluster, name: str, topic: AdditionalTopic, value: bytes) -> None:
    """May write it twice: the producer is not idempotent."""
    data = encode_batch(
        base_offset=0,
        leader_epoch=-1,
        timestamp_ms=time.time_ns() // 1_000_000,
        records=[Record(None, value)],
    )
    found = cluster.topics().get(name)
    leader = partition_of(found, 0).leader_id if found is not None else -1
    try:
        if leader >= 0:
            answer = partition_requests.produce(cluster, leader, topic.topic_id, 0, data)
            if not answer.error_code:
                topic.acknowledged[answer.base_offset] = value
                return
    except NO_ANSWER:
        pass
    time.sleep(0.1)


def delete_topic(stage: Stage, act: Act) -> Doing:
    if not stage.additional:
        raise NotDone("there is no additional topic")
    name = next(iter(stage.additional))
    del stage.additional[name]
    yield f"{name}: {partition_requests.delete_topic(stage.cluster, name).name}"


def alter_config(stage: Stage, act: Act) -> Doing:
    name, _ = stage.partition(act.rank)
    key, value = _CHANGES[act.rank % len(_CHANGES)]
    code = partition_requests.alter_topic(stage.cluster, name, key, value)
    yield f"{key}={value} of {name}: {code.name}"


def reassign(stage: Stage, act: Act) -> Doing:
    name, partition = stage.partition(act.rank)
    brokers = stage.cluster.plan.brokers
    kept = [each for each in brokers if each != act.broker]
    if stage.cluster.damaged - {act.broker}:
        raise NotDone("another replica may be lost with its directory")
    code = partition_requests.reassign(stage.cluster, name, partition, kept)
    try:
        yield f"{name}-{partition} to {kept}: {code.name}"
    finally:
        turn = act.rank % len(brokers)
        wanted = (*brokers[turn:], *brokers[:turn])
        wait_until(
            lambda: _reassigned(stage.cluster, name, partition, wanted),
            f"{name}-{partition} gets the replicas {wanted} again",
            _RESTORED_S,
        )


def _reassigned(cluster: Cluster, name: str, partition: int, wanted: tuple[int, ...]) -> bool:
    try:
        return not partition_requests.reassign(cluster, name, partition, wanted)
    except NO_ANSWER:
        return False


def elect_preferred(stage: Stage, act: Act) -> Doing:
    body = ElectLeadersRequest(topic_partitions=None, timeout_ms=10_000)
    answer = stage.cluster.request_any(ELECT_LEADERS, body)
    assert isinstance(answer, ElectLeadersResponse)
    count = sum(
        not each.error_code
        for topic in answer.replica_election_results
        for each in topic.partition_result
    )
    yield f"{count} leaders change"


def delete_records(stage: Stage, act: Act) -> Doing:
    """Before a part of what is committed."""
    name, partition = stage.partition(act.rank)
    known = stage.cluster.topics().get(name)
    leader = -1 if known is None else partition_of(known, partition).leader_id
    if leader < 0:
        raise NotDone(f"{name}-{partition} has no leader")
    asked = {(name, partition): -1}
    (latest,) = partition_requests.list_offsets(
        stage.cluster, leader, asked, LATEST_TIMESTAMP, 0
    ).values()
    if latest.error_code:
        raise NotDone(f"end of {name}-{partition}: {ErrorCode(latest.error_code).name}")
    offset = int(latest.offset * act.share)
    # Whatever the answer: the records may be deleted.
    key = name, partition
    stage.deleted_to[key] = max(offset, stage.deleted_to.get(key, 0))
    deleted = DeleteRecordsPartition(partition_index=partition, offset=offset)
    topics = (DeleteRecordsTopic(name=name, partitions=(deleted,)),)
    body = DeleteRecordsRequest(topics=topics, timeout_ms=3_000)
    answer = stage.cluster.request(leader, DELETE_RECORDS, body)
    assert isinstance(answer, DeleteRecordsResponse)
    code = ErrorCode(answer.topics[0].partitions[0].error_code)
    yield f"{name}-{partition} before {offset}: {code.name}"


def move_replica(stage: Stage, act: Act) -> Doing:
    """Between the log directories of a broker."""
    assert not is_stock(act.broker)
    name, partition = stage.partition(act.rank)
    path = str(stage.cluster.ours.directory(act.broker, "ab"[act.rank % 2]))
    topics = (AlterReplicaLogDirTopic(name=name, partitions=(partition,)),)
    body = AlterReplicaLogDirsRequest(dirs=(AlterReplicaLogDir(path=path, topics=topics),))
    answer = stage.cluster.request(act.broker, ALTER_REPLICA_LOG_DIRS, body)
    assert isinstance(answer, AlterReplicaLogDirsResponse)
    codes = [each.error_code for result in answer.results for each in result.partitions]
    yield f"{name}-{partition} of broker {act.broker} to {path[-10:]}: {codes}"


CATALOGUE: dict[str, Callable[[Stage, Act], Doing]] = {
    each.__name__.replace("_", "-"): each
    for each in (
        kill,
        kill_all,
        terminate,
        freeze,
        cut_link,
        cut_controllers,
        kill_controller,
        fill_directory,
        lose_directory,
        create_topic,
        delete_topic,
        alter_config,
        reassign,
        elect_preferred,
        delete_records,
        move_replica,
    )
}
