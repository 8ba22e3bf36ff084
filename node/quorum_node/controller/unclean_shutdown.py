"""Effects of a broker's unclean shutdown on partitions: it leaves every ISR and can't be elected. PURE.

Owns how an unclean shutdown is recognized, and the changes in bounded steps. Must not know
registrations otherwise.

A process that ends without flushing its logs may restart with shorter ones. A process that stopped
cleanly writes its broker epoch to disk last, and sends it when it registers again. Any other epoch,
or none, means an unclean shutdown. So does a broker id that is not registered: it was unregistered,
so its epoch is unknown, and its new process may have empty disks.
Source: KIP-966, "Unclean shutdown"; PreviousBrokerEpoch of BrokerRegistration version 3, as a stock
4.3 controller reads it.
"""

from quorum_node.controller.feature_levels import ELIGIBLE_LEADER_REPLICAS
from quorum_node.controller.partition_change import Wanted, change_partition
from quorum_node.controller.partition_repair import MAX_RECORDS
from quorum_node.controller.partition_rules import Judge
from quorum_node.controller.view import View
from quorum_node.records.metadata import MetadataMessage


def is_unclean(broker_epoch: int | None, previous_broker_epoch: int) -> bool:
    """Whether a new process can't prove that the process before it, with `broker_epoch`, stopped cleanly.

    None: the id is not registered.
    """
    return broker_epoch is None or previous_broker_epoch != broker_epoch


def keeps_eligible_replicas(view: View) -> bool:
    """Whether eligible leader replicas are enabled.

    Otherwise a broker that returns is treated as a fenced one.
    """
    return view.image.features.level(ELIGIBLE_LEADER_REPLICAS) > 0


def remove_replicas(view: View, broker_id: int) -> tuple[tuple[MetadataMessage, ...], bool]:
    """Changes that remove a broker from ISRs and eligible replicas; True when no partition is left."""
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
