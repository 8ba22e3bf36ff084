"""One round: the cluster, the load, the acts at their times, and the checks when everything has healed."""

import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

from quorum_node.protocol.metadata import MetadataTopic
from support.linearizability.network import require_namespaces
from support.local_quorum import wait_until
from support.loop_disk import require_loop_disks
from support.random_faults import partition_requests
from support.random_faults.acts import CATALOGUE, MIN_ISR, REFUSED, Doing, NotDone, Stage
from support.random_faults.cluster import NO_ANSWER, Cluster, partition_of
from support.random_faults.histories import Content, PartitionName, Round, Sent, problems
from support.random_faults.load import Loading, TransactionalLoad, loads
from support.random_faults.plan import Act, Plan
from support.random_faults.readers import OffsetObserver, StockReader, await_stable_ends
from support.random_faults.replicas import (
    NotReadable,
    content_of,
    differences_on_disk,
    start_offset,
)
from support.seeded_rounds import ActionLog, PassedRound, RoundFailed, Say

HEALED_S = 120.0
"""After the last fault: all brokers are live, all replicas in sync, all records acknowledged."""
_READ_S = 60.0
_LOOK_S = 0.3


def require_machine() -> None:
    """Skip the test where network namespaces or loop devices are missing."""
    require_namespaces()
    require_loop_disks()


def run_round(plan: Plan, root: Path, say: Say) -> PassedRound:
    """Raises RoundFailed, whose message is the report, if something is lost, doubled or different, or does not heal."""
    action_log = ActionLog(say)
    with Cluster(plan, root) as cluster:
        cluster.start()
        producers = loads(cluster)
        stage = Stage(cluster, {each.topic: len(each.sent) for each in producers})
        create_topics(stage, plan)
        action_log.note("the cluster serves")
        consumer = StockReader(cluster, stage.loaded)
        observer = OffsetObserver(cluster, stage.loaded)
        clients: list[threading.Thread] = [*producers, consumer, observer]
        for each in clients:
            each.start()
        found = play(stage, plan, action_log)
        begun = time.monotonic()
        for producer in producers:
            producer.ending.set()
        found += settle(stage, action_log)
        is_settled = not found
        for producer in producers:
            found += producer.finish(HEALED_S if is_settled else 1.0)
        settled_s = time.monotonic() - begun
        found += observer.finish()
        history = Round(received=consumer.received)
        if is_settled:
            # Also after a problem: what the replicas contain tells more about it.
            found += await_stable_ends(cluster, stage.loaded, HEALED_S)
            found += collect(stage, producers, history)
            found += consumer.finish(_ends(stage, history), _READ_S)
            found += problems(history)
        found += cluster.unexpected()
    acknowledged = sum(len(each.acknowledged) for each in history.sent)
    if found:
        raise RoundFailed(_report(plan, root, action_log.lines, found))
    action_log.note(f"{acknowledged} records, {observer.answers} ends of logs")
    return PassedRound(round(settled_s, 1), acknowledged, ("mixed",) if plan.is_mixed else ())


def create_topics(stage: Stage, plan: Plan) -> None:
    """The topics under load, with leaders on all brokers."""
    brokers, turn = plan.brokers, plan.seed
    configs = {"min.insync.replicas": str(MIN_ISR), "segment.ms": str(plan.segment_ms)}
    for name, count in stage.loaded.items():
        replicas = []
        for _ in range(count):
            first = turn % len(brokers)
            replicas.append((*brokers[first:], *brokers[:first]))
            turn += 1
        partition_requests.create_topic(stage.cluster, name, replicas, configs)


# -- the acts


def play(stage: Stage, plan: Plan, action_log: ActionLog) -> list[str]:
    """Each act in a thread, at its time. Returns problems of their ends: whatever was done has to be taken back."""
    begun = time.monotonic()
    with ThreadPoolExecutor(len(plan.acts)) as threads:
        running = [threads.submit(_act, stage, each, begun, action_log) for each in plan.acts]
    return [
        f"{act.name}: {failure!r}"
        for act, failure in zip(plan.acts, (each.exception() for each in running), strict=True)
        if failure is not None
    ]


def _act(stage: Stage, act: Act, begun: float, action_log: ActionLog) -> None:
    time.sleep(max(0.0, begun + act.at_s - time.monotonic()))
    doing: Doing = CATALOGUE[act.name](stage, act)
    try:
        action_log.note(f"{act.name}: {next(doing)}")
    except (*REFUSED, NotDone) as error:
        action_log.note(f"{act.name}: not done: {error}")
        return
    time.sleep(act.lasts_s)
    next(doing, None)
    if act.lasts_s:
        action_log.note(f"{act.name}: over")


# -- the end


def settle(stage: Stage, action_log: ActionLog) -> list[str]:
    """Wait until all replicas are in sync; the differences that remain."""
    deadline = time.monotonic() + HEALED_S
    before: list[str] = []
    while True:
        found = unsettled(stage)
        if found != before:
            action_log.note("; ".join(found[:3]) or "all replicas are in sync")
            before = found
        if not found:
            return []
        # Nobody starts a broker any more.
        if time.monotonic() > deadline or stage.cluster.ended():
            return [f"not healed: {each}" for each in found]
        time.sleep(_LOOK_S)


def unsettled(stage: Stage) -> list[str]:
    """What every broker does not know yet, or has not done yet."""
    cluster = stage.cluster
    found = [f"broker {each} has ended" for each in cluster.ended()]
    if found:
        return found
    everybody = set(cluster.plan.brokers)
    wanted = {*stage.loaded, *stage.additional}
    for broker_id in cluster.plan.brokers:
        answer = cluster.metadata(broker_id)
        if answer is None:
            found.append(f"broker {broker_id} does not answer")
            continue
        live = {each.node_id for each in answer.brokers}
        if live != everybody:
            found.append(f"broker {broker_id} knows brokers {sorted(live)}")
        topics = {str(each.name): each for each in answer.topics if not each.error_code}
        for name in sorted(wanted):
            if name not in topics:
                found.append(f"broker {broker_id} does not know {name}")
                continue
            found += [
                f"broker {broker_id} knows {name}-{each.partition_index} with leader {each.leader_id},"
                f" replicas {each.replica_nodes}, ISR {each.isr_nodes}"
                for each in topics[name].partitions
                if each.leader_id < 0
                or not everybody == set(each.isr_nodes) == set(each.replica_nodes)
            ]
    return found


def collect(stage: Stage, producers: Sequence[Loading], history: Round) -> list[str]:
    """Read everything back into the history. Returns what can't be read in time, and files that differ."""
    for producer in producers:
        history.sent += producer.sent
        if isinstance(producer, TransactionalLoad):
            history.transactions += producer.transactions
    for name, topic in stage.additional.items():
        history.sent.append(Sent(name, (name, 0), [], topic.acknowledged, in_order=False))
    names = [*stage.loaded, *stage.additional]

    def known() -> dict[str, MetadataTopic] | None:
        """On a busy machine it may be that nobody answers in time."""
        topics = stage.cluster.topics()
        return topics if all(each in topics for each in names) else None

    topics = wait_until(known, "a broker knows all topics", _READ_S)
    found: list[str] = []
    for name in names:
        topic_id = topics[name].topic_id
        assert topic_id is not None
        for each in topics[name].partitions:
            key = name, each.partition_index
            try:
                deleted_to = stage.deleted_to.get(key, 0)
                history.replicas[key] = _same_end(stage.cluster, topic_id, key, deleted_to)
            except (KeyError, NotReadable, *NO_ANSWER) as error:
                found.append(f"{name}-{each.partition_index} can't be read: {error!r}")
                continue
            found += _on_disk(stage.cluster, key, history.replicas[key])
    return found


def _ends(stage: Stage, history: Round) -> dict[PartitionName, int]:
    """Of the partitions under load."""
    return {
        name: max(each.end_offset for each in replicas.values())
        for name, replicas in history.replicas.items()
        if name[0] in stage.loaded
    }


def _same_end(
    cluster: Cluster, topic_id: UUID, key: PartitionName, deleted_to: int
) -> dict[int, Content]:
    """Of all replicas. A follower learns the last high watermark with its next fetch, and the first offset of its log as well. That
    of a leader that was deposed during a DeleteRecords may stay later than the new leader's, as with stock brokers, but not later than
    `deleted_to`, the offset that was asked for.
    """
    deadline = time.monotonic() + _READ_S
    while True:
        late = time.monotonic() > deadline
        try:
            leader = partition_of(cluster.topics()[key[0]], key[1]).leader_id
            start = start_offset(cluster, leader, key)
            found = {}
            for each in cluster.plan.brokers:
                own = min(start_offset(cluster, each, key), deleted_to)
                found[each] = content_of(cluster, each, topic_id, key[1], max(start, own))
        except (KeyError, NotReadable, *NO_ANSWER):
            if late:
                raise
            time.sleep(_LOOK_S)
            continue
        if late or len({(each.start_offset, each.end_offset) for each in found.values()}) == 1:
            return found
        time.sleep(_LOOK_S)


def _on_disk(cluster: Cluster, key: PartitionName, replicas: dict[int, Content]) -> Iterable[str]:
    """Differences that stay: a replica may just be moved to another directory, and segments before its start be removed."""
    for broker_id, content in replicas.items():
        deadline = time.monotonic() + _READ_S
        found = _in_files(cluster, key, broker_id, content)
        while found and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
            found = _in_files(cluster, key, broker_id, content)
        yield from found


def _in_files(cluster: Cluster, key: PartitionName, broker_id: int, content: Content) -> list[str]:
    try:
        found = differences_on_disk(cluster.log_folder(broker_id, *key), content)
    except FileNotFoundError as error:
        return [f"broker {broker_id} has no file {error}"]
    return [f"broker {broker_id}, {key[0]}-{key[1]}: {each}" for each in found]


def _report(plan: Plan, root: Path, action_log: list[str], found: list[str]) -> str:
    parts = {
        "problems": found,
        "again": [f"make random-faults SEEDS={plan.seed}"],
        "logs": [str(root)],
        "drawn": str(plan).splitlines(),
        "what happened": action_log,
    }
    return "\n".join(
        f"--- {title}\n" + "\n".join(f"  {line}" for line in lines)
        for title, lines in parts.items()
    )
