"""Changes of partitions after brokers were lost or returned: leaders and ISRs. PURE.

Owns which partitions need a change, in bounded steps. Must not know why a broker is not active, nor
which replicas can lead (`partition_rules.py`, `partition_leader.py`).

A broker that is fenced, shutting down or unregistered can't lead, and is removed from every ISR
that has another member (KV3-01). If no member of the ISR is active there is no leader, and the ISR
stays: the first member that returns becomes leader. All changes follow from the image alone, so a
new controller can continue in the middle (KV3-06). The cost depends on the partitions of the
brokers in question, never on all (KV3-02).
Source: the replication design V3, "B. Leader change" and "onBrokerFailure"; KIP-631, "Fencing",
"Controlled Shutdown".
"""

from collections.abc import Iterator

from quorum_node.controller.decision import Decision
from quorum_node.controller.partition_change import shrink_isr
from quorum_node.controller.partition_rules import Judge
from quorum_node.controller.view import View
from quorum_node.image.partition_sets import IndexKey
from quorum_node.records.metadata import MetadataMessage, PartitionChangeRecord

MAX_RECORDS = 2_500
"""Records per decision.

Small enough that the event loop can run other work in between; four decisions for 10,000
partitions.
"""
MAX_LOOKS = 5_000
"""Partitions that are examined per decision, with and without a change; about the time of the
maximum of records.
"""

_END: IndexKey = (0, -1)


def repair(view: View, key: IndexKey, judge: Judge) -> PartitionChangeRecord | None:
    """The record that repairs one partition; None if it needs no change."""
    number, partition_id = key
    topic = view.image.topics.by_id.get(number)
    partition = None if topic is None else topic.partitions.get(partition_id)
    if topic is None or partition is None:
        return None
    return shrink_isr(
        topic.topic_id,
        partition_id,
        partition,
        judge.active_of(partition.isr),
        judge.circumstances(topic.name, partition),
    )


def repair_some(view: View, keys: Iterator[IndexKey | None]) -> tuple[Decision, bool]:
    """Examine a bounded number of partitions; True when `keys` is exhausted."""
    records: list[MetadataMessage] = []
    seen: set[IndexKey] = set()
    judge = Judge(view)
    for _ in range(MAX_LOOKS):
        key = next(keys, _END)
        if key is _END:
            return Decision(tuple(records), atomic=False), True
        if key is None or key in seen:
            continue
        seen.add(key)
        record = repair(view, key, judge)
        if record is not None:
            records.append(record)
            if len(records) >= MAX_RECORDS:
                break
    return Decision(tuple(records), atomic=False), False
