"""One id space for brokers and controllers: checks whether a node id is available for a
registration. PURE.

Owns the rule. Must not know the kind of request: a broker, a controller, or a replica that is to
become a voter.
Source: KIP-631, "Node IDs". There a broker and a controller never share an id; in shipped Kafka the
two roles of one process do.

* Only a new registration is refused. Registered nodes and voters stay, and their new processes can
register. A cluster that has duplicate ids continues (`doubled`; the node logs a warning).
* Two roles are one process if they register with the same incarnation id, or if the replica's UUID
is one of the broker's log directories. A process of stock Kafka with both roles has its metadata
log in one of them.
* If the replica UUID of a controller is unknown (a stock controller that is not a voter does not
send it), all replicas that fetch under that id must be such directories. Two processes fetch under
two UUIDs.
"""

from collections.abc import Collection, Iterator, Sequence
from uuid import UUID

from quorum_node.controller.view import View
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.records.identity import ReplicaKey


def broker_conflict(
    view: View, broker_id: int, incarnation_id: UUID, directories: Collection[UUID]
) -> str | None:
    """Why a broker can't have this id, or None. `directories`: ids of its registered log directories."""
    if broker_id in view.image.brokers.by_id:
        return None
    holder = _controller_of(view, broker_id)
    if holder is None:
        return None
    controller = view.image.controllers.get(broker_id)
    if controller is not None and _is_same(controller.incarnation_id, incarnation_id):
        return None
    if _is_in(_uuids_of(view, broker_id), directories):
        return None
    return (
        f"{holder} has node id {broker_id}, and no log directory of this broker is that replica's: brokers and "
        "controllers share one id space; give the broker another node.id"
    )


def controller_conflict(
    view: View, controller_id: int, incarnation_id: UUID, directory_id: UUID | None
) -> str | None:
    """Why a controller can't register with this id, or None. `directory_id`: its replica UUID, if sent."""
    if view.image.controllers.get(controller_id) is not None or controller_id in view.voter_ids:
        return None
    broker = view.image.brokers.get(controller_id)
    if broker is not None and _is_same(broker.incarnation_id, incarnation_id):
        return None
    uuids = {directory_id} if directory_id is not None else _uuids_of(view, controller_id)
    return _conflict_with_broker(view.image, controller_id, uuids)


def voter_conflict(
    image: ClusterImage,
    voters: Sequence[ReplicaKey],
    newcomer: ReplicaKey,
) -> str | None:
    """Why a replica can't become a voter, or None. A second replica of a voter's id can, to replace
    a disk.

    A new voter without a UUID is any replica with that id. Then only a registered controller has a
    claim to the id.
    """
    if image.controllers.get(newcomer.id) is not None:
        return None
    if any(key.id == newcomer.id for key in voters):
        return None
    return _conflict_with_broker(image, newcomer.id, _uuids((newcomer,), newcomer.id))


def doubled(view: View) -> Iterator[int]:
    """Ids of brokers that are also ids of controllers, without evidence that both are one process."""
    holders = (*view.voters, *view.replicas().joining)
    controller_ids = {*view.image.controllers.by_id, *(key.id for key in holders)}
    for broker_id in sorted(controller_ids):
        broker = view.image.brokers.get(broker_id)
        if broker is None:
            continue
        controller = view.image.controllers.get(broker_id)
        if controller is not None and _is_same(controller.incarnation_id, broker.incarnation_id):
            continue
        if not _is_in(_uuids_of(view, broker_id), broker.log_dirs):
            yield broker_id


def _conflict_with_broker(image: ClusterImage, node_id: int, uuids: Collection[UUID]) -> str | None:
    broker = image.brokers.get(node_id)
    if broker is None or _is_in(uuids, broker.log_dirs):
        return None
    return (
        f"broker {node_id} is registered, and this replica is in none of its log directories: brokers and controllers "
        "share one id space; give the controller another node.id, or unregister the broker if it no longer exists"
    )


def _controller_of(view: View, node_id: int) -> str | None:
    """The voter, future voter or registered controller that has an id."""
    for key in view.voters:
        if key.id == node_id:
            return f"voter {key}"
    for key in view.replicas().joining:
        if key.id == node_id:
            return f"the future voter {key}"
    if view.image.controllers.get(node_id) is not None:
        return f"a registered controller, {node_id},"
    return None


def _uuids_of(view: View, node_id: int) -> set[UUID]:
    """UUIDs of the controller with that id: those of voters, else of all replicas that fetch under the id."""
    replicas = view.replicas()
    return _uuids((*view.voters, *replicas.joining), node_id) or _uuids(replicas.fetching, node_id)


def _uuids(keys: Sequence[ReplicaKey], node_id: int) -> set[UUID]:
    return {key.uuid for key in keys if key.id == node_id and key.uuid is not None}


def _is_same(incarnation: UUID, other: UUID) -> bool:
    """Whether two roles have the same incarnation id; zero is no evidence."""
    return incarnation.int != 0 and incarnation == other


def _is_in(uuids: Collection[UUID], directories: Collection[UUID]) -> bool:
    """Whether all known replicas of a controller are log directories of a broker, and at least one
    is known.
    """
    return bool(uuids) and set(uuids) <= set(directories)
