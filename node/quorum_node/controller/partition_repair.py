"""What the loss or the return of brokers means for partitions: leaders and ISRs that have to change. PURE.

Owns which partitions ask for attention, and a bounded look at them. Must not know why a broker is not active, nor
who may lead (`partition_rules.py`, `partition_leader.py`).

A broker that is fenced, shutting down or gone may not lead and leaves every ISR that has somebody else (KV3-01).
If nobody of the ISR is left there is no leader, and the ISR stays as it is: whoever of it comes back leads on.
Everything that is to be done follows from the image alone, so whoever becomes controller in the middle goes on
(KV3-06); and it is a matter of the partitions of the brokers in question, never of all (KV3-02).

Source: the replication design V3, "B. Leader change" and "onBrokerFailure"; KIP-631, "Fencing", "Controlled Shutdown".
"""

from collections.abc import Iterator

from quorum_node.controller.decision import Decision
from quorum_node.controller.partition_change import shrink_isr
from quorum_node.controller.partition_rules import Judge
from quorum_node.controller.view import View
from quorum_node.image.partition_sets import IndexKey
from quorum_node.records.metadata import MetadataMessage, PartitionChangeRecord

MAX_RECORDS = 2_500
"""Of one decision: small enough that the loop turns in between, four of them for 10 000 partitions."""
MAX_LOOKS = 5_000
"""Of one decision, at partitions that turn out to be in order, too: about as long as that many records take."""

_END: IndexKey = (0, -1)


def repair(view: View, key: IndexKey, judge: Judge) -> PartitionChangeRecord | None:
    """What has to change in one partition now, None if nothing does."""
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
    """A bounded number of looks and records; True when `keys` has come to its end."""
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
