"""Assignments of replicas to brokers: validates given ones, and chooses automatic ones. PURE.

Owns the validity of an assignment. Must not know which request it belongs to; automatic placement
is in `placement.py`.
Source: the shipped controller's responses to invalid assignments; KIP-1066 (brokers whose
directories are all cordoned get new replicas only if they are named).
"""

from collections.abc import Iterator, Sequence

from quorum_node.controller.feature_levels import BROKER_OF_THIS_SOFTWARE
from quorum_node.controller.placement import Placer, UsableBroker
from quorum_node.controller.problem import Problem
from quorum_node.controller.view import View
from quorum_node.protocol.errors import ErrorCode
from quorum_node.records.metadata import RegisterBrokerRecord

_OF_STOCK_COORDINATORS = frozenset({"__transaction_state", "__share_group_state"})
"""Topics whose leaders coordinate transactions or share groups, which brokers of this software do not."""


def manual_fault(view: View, replicas: Sequence[int], expected: int | None) -> Problem | None:
    """Why a given list of replicas is invalid, or None; `expected`: required number of replicas."""
    if not replicas:
        return _fault("a partition needs at least one replica")
    for replica in sorted(replicas):
        if view.image.brokers.get(replica) is None:
            return _fault(f"broker {replica} is not registered")
    if len(set(replicas)) < len(replicas):
        return _fault(f"{_text(replicas)} names a broker twice")
    if expected is not None and len(replicas) != expected:
        return _fault(
            f"{_text(replicas)} are {len(replicas)} replicas, but the other partitions of the topic have {expected}"
        )
    return None


def in_sync_at_first(view: View, replicas: Sequence[int]) -> tuple[int, ...]:
    """Initial ISR of a new partition: its replicas on active brokers."""
    brokers = view.image.brokers
    return tuple(each for each in replicas if brokers.is_active(each))


def no_leader_fault(replicas: Sequence[int], partition_id: int) -> Problem:
    """Why a new partition can't have a leader."""
    return _fault(
        f"partition {partition_id}: {_text(replicas)} are all fenced or shutting down, so it could have no leader"
    )


def placer(view: View) -> Placer:
    """Places replicas on brokers that can take new ones."""
    return Placer(_usable(view), view.random)


def placer_of(view: View, topic: str, of_others: Placer) -> Placer:
    """The placer for this topic: `of_others`, or one with only the brokers that coordinate what the topic stores."""
    if topic not in _OF_STOCK_COORDINATORS:
        return of_others
    by_id = view.image.brokers.by_id
    stock = (each for each in _usable(view) if not _is_of_this_software(by_id[each.broker_id]))
    return Placer(stock, view.random)


def factor_fault(topic: str, placer: Placer, replication_factor: int) -> Problem | None:
    """Why a replication factor is impossible, or None."""
    text = None
    if replication_factor <= 0:
        text = f"a replication factor of {replication_factor} is invalid: it has to be at least 1"
    elif not placer.live_brokers:
        text = "no active broker can lead a new partition"
    elif replication_factor > placer.brokers:
        text = (
            f"a replication factor of {replication_factor} needs as many brokers, "
            f"but {placer.brokers} can take replicas"
        )
    if text is not None and topic in _OF_STOCK_COORDINATORS:
        text += (
            f"; {topic} is placed only on brokers of Apache Kafka, which coordinate what it stores"
        )
    return Problem(ErrorCode.INVALID_REPLICATION_FACTOR, text) if text is not None else None


def _usable(view: View) -> Iterator[UsableBroker]:
    for broker in view.image.brokers.by_id.values():
        # A broker that has shut down is fenced, and takes replicas as every fenced one: it comes back.
        is_leaving = broker.in_controlled_shutdown and not broker.fenced
        if not is_leaving and not _is_cordoned(broker):
            yield UsableBroker(broker.broker_id, broker.rack, broker.fenced)


def _is_of_this_software(broker: RegisterBrokerRecord) -> bool:
    return any(each.name == BROKER_OF_THIS_SOFTWARE for each in broker.features)


def _is_cordoned(broker: RegisterBrokerRecord) -> bool:
    cordoned = broker.cordoned_log_dirs
    return bool(cordoned) and set(broker.log_dirs) <= set(cordoned or ())


def _text(replicas: Sequence[int]) -> str:
    return f"[{', '.join(map(str, replicas))}]"


def _fault(text: str) -> Problem:
    return Problem(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
