"""BrokerHeartbeat: renews the lease of a broker, and changes its state. PURE.

Owns the inputs of `broker_state.py`, and the records of each transition. The effect of a transition
on partitions is in `partition_repair.py`.
Source: KIP-631, "Broker Heartbeats", "Fencing", "Controlled Shutdown"; KIP-858 (failed
directories), KIP-1066 (cordoned directories).
"""

from typing import Any
from uuid import UUID

from quorum_node.controller.broker_epochs import epoch_problem
from quorum_node.controller.broker_state import (
    BrokerState,
    Facts,
    flags_of,
    lease_ended,
    next_state,
    state_of,
    wish_of,
)
from quorum_node.controller.decision import Decision
from quorum_node.controller.leases import Lease
from quorum_node.controller.offline_directories import remove_replicas_in
from quorum_node.controller.registered_values import MAX_DIRECTORIES
from quorum_node.controller.view import View
from quorum_node.protocol.broker_registration import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.records.metadata import (
    BrokerRegistrationChangeRecord,
    MetadataMessage,
    RegisterBrokerRecord,
)
from quorum_node.records.metadata.metadata_version import (
    CORDONED_DIRECTORIES_LEVEL,
    DIRECTORIES_LEVEL,
)

_FENCE, _UNFENCE = 1, -1
_FAR = 2**63
_ZERO = UUID(int=0)


def heartbeat(view: View, request: BrokerHeartbeatRequest) -> Decision:
    """One heartbeat."""
    problem = epoch_problem(view, request.broker_id, request.broker_epoch)
    if problem is not None:
        return Decision(answer=refuse_heartbeat(request, problem, ""))
    broker = view.image.brokers.get(request.broker_id)
    assert broker is not None
    if len(request.cordoned_log_dirs or ()) > MAX_DIRECTORIES:
        return Decision(answer=refuse_heartbeat(request, ErrorCode.INVALID_REQUEST, ""))
    known = _lease(view, broker)
    first = known is None or known.metadata_offset < 0
    lease = view.leases.renew(
        broker.broker_id, broker.broker_epoch, view.now_ms, request.current_metadata_offset
    )
    state = state_of(broker.fenced, broker.in_controlled_shutdown, first=first)
    wish = wish_of(request.want_fence, request.want_shut_down)
    caught_up = request.current_metadata_offset >= broker.broker_epoch
    too_stale = request.current_metadata_offset + 1 < view.stale_offset
    facts = Facts(
        wish=wish,
        caught_up=caught_up and not too_stale,
        too_stale=too_stale,
        leads=view.image.topics.led_count(broker.broker_id) > 0,
        all_brokers_know=0 <= lease.shutdown_offset <= _lowest_active_offset(view, broker),
    )
    after = next_state(state, facts)
    records = [*_directory_changes(view, broker, request), *_transition(broker, after)]
    if after is BrokerState.SHUTTING_DOWN and not facts.leads and lease.shutdown_offset < 0:
        lease.shutdown_offset = view.next_offset - 1
    answer = BrokerHeartbeatResponse(
        error_code=0,
        is_caught_up=caught_up,
        is_fenced=after in (BrokerState.FENCED, BrokerState.SHUTDOWN),
        should_shut_down=after is BrokerState.SHUTDOWN,
    )
    return Decision(tuple(records), answer, atomic=False)


def refuse_heartbeat(
    request: BrokerHeartbeatRequest, error: ErrorCode, text: str
) -> BrokerHeartbeatResponse:
    """The lease is not renewed. The response has no field for a message."""
    return BrokerHeartbeatResponse(error_code=error)


def fence_expired(view: View) -> Decision:
    """Maintenance: fence brokers whose lease has ended."""
    records = tuple(
        record
        for broker in view.image.brokers.by_id.values()
        if not broker.fenced
        and view.leases.expiry_ms(broker.broker_id, broker.broker_epoch) <= view.now_ms
        for record in _transition(
            broker, lease_ended(state_of(broker.fenced, broker.in_controlled_shutdown))
        )
    )
    return Decision(records)


def next_expiry_ms(view: View) -> float | None:
    """When the next lease ends that `fence_expired` has to handle."""
    return min(
        (
            view.leases.expiry_ms(broker.broker_id, broker.broker_epoch)
            for broker in view.image.brokers.by_id.values()
            if not broker.fenced
        ),
        default=None,
    )


def _change(broker: RegisterBrokerRecord, **fields: Any) -> BrokerRegistrationChangeRecord:
    """A change of this registration (same broker epoch)."""
    return BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, **fields
    )


def _transition(
    broker: RegisterBrokerRecord, after: BrokerState
) -> tuple[BrokerRegistrationChangeRecord, ...]:
    """The record of a transition. The sweep that follows makes the changes of partitions."""
    fenced, leaving = flags_of(after)
    changes = {}
    if fenced != broker.fenced:
        changes["fenced"] = _FENCE if fenced else _UNFENCE
    if leaving and not broker.in_controlled_shutdown:
        changes["in_controlled_shutdown"] = 1
    return (_change(broker, **changes),) if changes else ()


def _directory_changes(
    view: View, broker: RegisterBrokerRecord, request: BrokerHeartbeatRequest
) -> tuple[MetadataMessage, ...]:
    """Failed directories are removed from the registration, after their replicas from ISRs; cordoned ones are recorded."""
    level = view.image.features.metadata_version
    online, cordoned = broker.log_dirs, broker.cordoned_log_dirs
    removed: tuple[MetadataMessage, ...] = ()
    if level >= DIRECTORIES_LEVEL:
        failed = set(broker.log_dirs).intersection(request.offline_log_dirs)
        complete = True
        if failed:
            removed, complete = remove_replicas_in(view, broker.broker_id, failed)
        if complete:
            online = tuple(each for each in broker.log_dirs if each not in failed)
    if level >= CORDONED_DIRECTORIES_LEVEL and request.cordoned_log_dirs is not None:
        cordoned = tuple(each or _ZERO for each in request.cordoned_log_dirs)
    changed_online = online != broker.log_dirs
    changed_cordoned = set(cordoned or ()) != set(broker.cordoned_log_dirs or ())
    if not changed_online and not changed_cordoned:
        return removed
    return (
        *removed,
        _change(
            broker,
            log_dirs=online if changed_online else (),
            cordoned_log_dirs=cordoned if changed_cordoned else None,
        ),
    )


def _lowest_active_offset(view: View, leaving: RegisterBrokerRecord) -> int:
    """Lowest applied offset of the other active brokers; the maximum if there are none."""
    offsets = [
        lease.metadata_offset if (lease := _lease(view, broker)) is not None else -1
        for broker in view.image.brokers.by_id.values()
        if broker.broker_id != leaving.broker_id
        and not broker.fenced
        and not broker.in_controlled_shutdown
    ]
    return min(offsets, default=_FAR)


def _lease(view: View, broker: RegisterBrokerRecord) -> Lease | None:
    return view.leases.get(broker.broker_id, broker.broker_epoch)
