"""What a change of a partition is decided by, as of one view: who is alive, where new replicas go, which risks. PURE.

Owns the way from a view to `Circumstances`. Must not know any request.
"""

from uuid import UUID

from quorum_node.controller.directory_ids import default_directory, is_online
from quorum_node.controller.partition_change import ChangeRules, Circumstances
from quorum_node.controller.partition_leader import Election
from quorum_node.controller.topic_settings import may_lose_data
from quorum_node.controller.view import View
from quorum_node.image.partition import Partition
from quorum_node.records.metadata import UNASSIGNED
from quorum_node.records.metadata.metadata_version import (
    DIRECTORIES_LEVEL,
    ISR_SHRINK_KEEPS_LEADER_EPOCH_LEVEL,
)


def change_rules(view: View) -> ChangeRules:
    """What the finalized metadata.version asks for."""
    level = view.image.features.metadata_version
    return ChangeRules(
        directories=level >= DIRECTORIES_LEVEL,
        bump_on_shrink=level < ISR_SHRINK_KEEPS_LEADER_EPOCH_LEVEL,
    )


def directory_of_new_replica(view: View, broker_id: int) -> UUID:
    """Where a replica goes that is new on a broker."""
    broker = view.image.brokers.get(broker_id)
    if broker is None:
        return UNASSIGNED
    cordoned = broker.cordoned_log_dirs or ()
    return default_directory([each for each in broker.log_dirs if each not in cordoned])


def directories_of_new_replicas(view: View, replicas: tuple[int, ...]) -> tuple[UUID, ...]:
    """The same for a new partition; nothing before directories have ids."""
    if view.image.features.metadata_version < DIRECTORIES_LEVEL:
        return ()
    return tuple(directory_of_new_replica(view, each) for each in replicas)


def circumstances(
    view: View,
    topic: str,
    partition: Partition,
    election: Election | None = None,
    *,
    gone: int = -1,
) -> Circumstances:
    """What a change of this partition is decided by.

    Without an `election`: whoever keeps the partition online, at the price that the topic's settings allow.
    `gone` is a broker that is on its way out and may not lead any more.
    """
    brokers = view.image.brokers

    def is_acceptable(replica: int) -> bool:
        if replica == gone or not brokers.is_active(replica):
            return False
        broker = brokers.get(replica)
        assert broker is not None
        directory = partition.directory(replica)
        return directory is None or is_online(directory, broker.log_dirs)

    if election is None:
        election = Election.UNCLEAN if may_lose_data(view, topic) else Election.ONLINE
    return Circumstances(
        is_acceptable=is_acceptable,
        default_directory=lambda replica: directory_of_new_replica(view, replica),
        election=election,
        rules=change_rules(view),
    )
