"""What it means for partitions that a broker did not stop cleanly: it leaves every ISR and may not be elected. PURE.

Owns how an unclean shutdown is recognized, and a bounded part of the changes. Must not know registrations beyond that.

A process that ends without flushing its logs may come back with shorter ones. A process that stopped cleanly names the broker
epoch that it had, which it wrote down last; any other epoch, and none at all, mean that it did not.
Source: KIP-966, "Unclean shutdown"; PreviousBrokerEpoch of BrokerRegistration version 3, as a stock 4.3 controller reads it.
"""

from quorum_node.controller.feature_levels import ELIGIBLE_LEADER_REPLICAS
from quorum_node.controller.partition_change import Wanted, change_partition
from quorum_node.controller.partition_repair import MAX_RECORDS
from quorum_node.controller.partition_rules import Judge
from quorum_node.controller.view import View
from quorum_node.records.metadata import MetadataMessage


def is_unclean(broker_epoch: int, previous_broker_epoch: int) -> bool:
    """Whether a new process says nothing of a clean stop of the one that was registered with `broker_epoch`."""
    return previous_broker_epoch != broker_epoch


def keeps_eligible_replicas(view: View) -> bool:
    """Without eligible leader replicas a broker that comes back is one that was fenced, however it stopped."""
    return view.image.features.level(ELIGIBLE_LEADER_REPLICAS) > 0


def remove_replicas(view: View, broker_id: int) -> tuple[tuple[MetadataMessage, ...], bool]:
    """Changes that take a broker out of ISRs and eligible replicas; True when no partition is left."""
    judge = Judge(view)
    records: list[MetadataMessage] = []
    for (number, partition_id), now in view.image.topics.partitions_of(broker_id):
        if broker_id not in now.isr and broker_id not in (now.eligible_leader_replicas or ()):
            continue
        if len(records) == MAX_RECORDS:
            return tuple(records), False
        topic = view.image.topics.by_id[number]
        wanted = Wanted(
            isr=tuple(each for each in now.isr if each != broker_id),
            unclean_shutdown=(broker_id,),
        )
        given = judge.circumstances(topic.name, now, gone=broker_id)
        record = change_partition(topic.topic_id, partition_id, now, wanted, given)
        if record is not None:
            records.append(record)
    return tuple(records), True
