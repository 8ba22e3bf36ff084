"""Registrations of brokers and controllers: admission to the cluster, and broker epochs. PURE.

Owns BrokerRegistration, UnregisterBroker and ControllerRegistration. Must not know heartbeats.

A broker that starts always gets its id (KIP-631, "Broker ID Conflicts"), so a process that was
killed and restarted does not have to wait for the end of its own lease. The process before it then
has a stale epoch, and its next request fails. A stock controller would refuse the new process until
the old session ends. With eligible leader replicas the new process also reports whether the one
before stopped cleanly (`unclean_shutdown.py`).

An id belongs to a broker or a controller, unless both are one process: see `id_space.py`. A
controller that starts gets its id as well, except while a voter has that id with another replica
UUID. Then only that voter (the newest, if there are two) can register. Processes of stock Kafka
don't send their replica UUID.
"""

from collections.abc import Iterator, Sequence
from uuid import UUID

from quorum_node.controller.broker_state import flags_of, registered, state_of
from quorum_node.controller.decision import Decision
from quorum_node.controller.directory_ids import is_reserved
from quorum_node.controller.feature_levels import METADATA_VERSION_NAMES
from quorum_node.controller.id_space import broker_conflict, controller_conflict
from quorum_node.controller.registered_values import registration_fault
from quorum_node.controller.unclean_shutdown import (
    is_unclean,
    keeps_eligible_replicas,
    remove_replicas,
)
from quorum_node.controller.view import View
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.protocol.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    RegisteredListener,
    SupportedFeatureRange,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from quorum_node.protocol.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.records.metadata import (
    LOWEST_LEVEL,
    METADATA_VERSION,
    MetadataMessage,
    NodeEndpoint,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    SupportedFeature,
    UnregisterBrokerRecord,
)
from quorum_node.records.metadata.metadata_version import (
    CONTROLLER_REGISTRATION_LEVEL,
    DIRECTORIES_LEVEL,
)

_ZERO = UUID(int=0)


def register_broker(view: View, request: BrokerRegistrationRequest) -> Decision:
    """Register a process of a broker. It is fenced until a heartbeat unfences it."""
    problem = _registration_problem(view, request)
    if problem is not None:
        return Decision(
            answer=refuse_registration(request, *problem),
            refused=f"broker {request.broker_id} is not registered: {problem[1]}",
        )
    existing = view.image.brokers.get(request.broker_id)
    incarnation_id = request.incarnation_id or _ZERO
    same_process = existing is not None and existing.incarnation_id == incarnation_id
    removed: tuple[MetadataMessage, ...] = ()
    known_epoch = None if existing is None else existing.broker_epoch
    is_lossy = not same_process and is_unclean(known_epoch, request.previous_broker_epoch)
    if is_lossy and keeps_eligible_replicas(view):
        removed, complete = remove_replicas(view, request.broker_id)
        if not complete:
            # The broker repeats the request. It is registered after the last of these changes, by
            # any controller.
            text = "its replicas are being removed from ISRs after an unclean shutdown"
            refused = refuse_registration(request, ErrorCode.REQUEST_TIMED_OUT, text)
            return Decision(removed, refused, atomic=False)
    epoch = existing.broker_epoch if existing is not None and same_process else view.next_offset
    before = (
        None if existing is None else state_of(existing.fenced, existing.in_controlled_shutdown)
    )
    fenced, leaving = flags_of(registered(before, same_process=same_process))
    record = RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=incarnation_id,
        broker_epoch=epoch,
        end_points=_endpoints(request.listeners),
        features=tuple(_features(request)),
        rack=request.rack,
        fenced=fenced,
        in_controlled_shutdown=leaving,
        log_dirs=_directories(request)
        if view.image.features.metadata_version >= DIRECTORIES_LEVEL
        else (),
    )
    view.leases.renew(request.broker_id, epoch, view.now_ms, -1)
    answer = BrokerRegistrationResponse(error_code=0, broker_epoch=epoch)
    return Decision((*removed, record), answer, atomic=False)


def refuse_registration(
    request: BrokerRegistrationRequest, error: ErrorCode, text: str
) -> BrokerRegistrationResponse:
    """Not registered. The response has no field for a message: see `Decision.refused`."""
    return BrokerRegistrationResponse(error_code=error)


def unregister_broker(view: View, request: UnregisterBrokerRequest) -> Decision:
    """Unregister a broker. Its partitions are handled as after a failure."""
    broker = view.image.brokers.get(request.broker_id)
    if broker is None:
        text = f"Broker ID {request.broker_id} is not currently registered"
        error = ErrorCode.BROKER_ID_NOT_REGISTERED
        return Decision(answer=refuse_unregister(request, error, text))
    record = UnregisterBrokerRecord(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch)
    return Decision((record,), UnregisterBrokerResponse(error_code=0))


def refuse_unregister(
    request: UnregisterBrokerRequest, error: ErrorCode, text: str
) -> UnregisterBrokerResponse:
    """Nothing is forgotten."""
    return UnregisterBrokerResponse(error_code=error, error_message=text)


def register_controller(view: View, request: ControllerRegistrationRequest) -> Decision:
    """Register a controller with its listeners and supported features."""
    if view.image.features.metadata_version < CONTROLLER_REGISTRATION_LEVEL:
        text = "The current MetadataVersion is too old to support controller registrations."
        error = ErrorCode.UNSUPPORTED_VERSION
        return Decision(answer=refuse_controller_registration(request, error, text))
    fault = registration_fault(request.controller_id, request.listeners, request.features)
    if fault is not None:
        error = ErrorCode.INVALID_REQUEST
        return Decision(answer=refuse_controller_registration(request, error, fault))
    newest = view.newest_voter(request.controller_id)
    if newest is not None and request.directory_id not in (None, newest.uuid):
        text = f"the voter with this id is {newest}: another replica can't register with it"
        error = ErrorCode.DUPLICATE_BROKER_REGISTRATION
        return Decision(answer=refuse_controller_registration(request, error, text))
    conflict = controller_conflict(
        view, request.controller_id, request.incarnation_id or _ZERO, request.directory_id
    )
    if conflict is not None:
        error = ErrorCode.DUPLICATE_BROKER_REGISTRATION
        return Decision(answer=refuse_controller_registration(request, error, conflict))
    return Decision((_controller_record(request),), ControllerRegistrationResponse(error_code=0))


def lacks_registration(image: ClusterImage, own: ControllerRegistrationRequest) -> bool:
    """Whether a controller has to register: the feature level supports it, and the registration differs."""
    level = image.features.levels.get(METADATA_VERSION, 0)
    if level < CONTROLLER_REGISTRATION_LEVEL:
        return False
    found, wanted = image.controllers.get(own.controller_id), _controller_record(own)
    return found is None or not (
        found.incarnation_id == wanted.incarnation_id
        and set(found.end_points) == set(wanted.end_points)
        and set(found.features) == set(wanted.features)
    )


def refuse_controller_registration(
    request: ControllerRegistrationRequest, error: ErrorCode, text: str
) -> ControllerRegistrationResponse:
    """Not registered."""
    return ControllerRegistrationResponse(error_code=error, error_message=text)


def _controller_record(request: ControllerRegistrationRequest) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id or _ZERO,
        end_points=_endpoints(request.listeners),
        features=tuple(_supported(each) for each in request.features),
    )


def _registration_problem(
    view: View, request: BrokerRegistrationRequest
) -> tuple[ErrorCode, str] | None:
    if request.cluster_id != view.cluster_id:
        text = f"this is cluster {view.cluster_id}, not {request.cluster_id}"
        return ErrorCode.INCONSISTENT_CLUSTER_ID, text
    if request.is_migrating_zk_broker:
        return ErrorCode.BROKER_ID_NOT_REGISTERED, "there are no brokers of ZooKeeper clusters here"
    fault = registration_fault(
        request.broker_id, request.listeners, request.features, request.log_dirs
    )
    if fault is not None:
        return ErrorCode.INVALID_REGISTRATION, fault
    conflict = broker_conflict(
        view, request.broker_id, request.incarnation_id or _ZERO, _directories(request)
    )
    if conflict is not None:
        return ErrorCode.DUPLICATE_BROKER_REGISTRATION, conflict
    if view.image.features.metadata_version >= DIRECTORIES_LEVEL:
        problem = _directory_problem(view, request)
        if problem is not None:
            return ErrorCode.INVALID_REGISTRATION, problem
    unsupported = _unsupported_feature(view, request.features)
    if unsupported is not None:
        return ErrorCode.UNSUPPORTED_VERSION, unsupported
    return None


def _directory_problem(view: View, request: BrokerRegistrationRequest) -> str | None:
    directories = _directories(request)
    if not directories:
        return "the request contains no directories"
    if any(map(is_reserved, directories)):
        return "the request contains a reserved directory id"
    if len(set(directories)) < len(directories):
        return "the request contains a directory id more than once"
    for other in view.image.brokers.by_id.values():
        if other.broker_id != request.broker_id and not set(directories).isdisjoint(other.log_dirs):
            return f"broker {other.broker_id} has registered one of these directories"
    return None


def _unsupported_feature(view: View, offered: Sequence[SupportedFeatureRange]) -> str | None:
    """The first finalized level that the broker does not support."""
    ranges = {
        each.name: (each.min_supported_version, each.max_supported_version) for each in offered
    }
    ranges.setdefault(METADATA_VERSION, (LOWEST_LEVEL, LOWEST_LEVEL))
    for name, level in sorted(view.image.features.levels.items()):
        low, high = ranges.get(name, (0, 0))
        if level and not low <= level <= high:
            shown = METADATA_VERSION_NAMES.get(level, level) if name == METADATA_VERSION else level
            return f"{name} is finalized at {shown}; the broker supports {low} to {high}"
    return None


def _features(request: BrokerRegistrationRequest) -> Iterator[SupportedFeature]:
    for each in request.features:
        yield _supported(each)
    if all(each.name != METADATA_VERSION for each in request.features):
        yield SupportedFeature(
            name=METADATA_VERSION,
            min_supported_version=LOWEST_LEVEL,
            max_supported_version=LOWEST_LEVEL,
        )


def _supported(offered: SupportedFeatureRange) -> SupportedFeature:
    return SupportedFeature(
        name=offered.name,
        min_supported_version=offered.min_supported_version,
        max_supported_version=offered.max_supported_version,
    )


def _endpoints(listeners: Sequence[RegisteredListener]) -> tuple[NodeEndpoint, ...]:
    return tuple(
        NodeEndpoint(
            name=each.name,
            host=each.host,
            port=each.port,
            security_protocol=each.security_protocol,
        )
        for each in listeners
    )


def _directories(request: BrokerRegistrationRequest) -> tuple[UUID, ...]:
    return tuple(each or _ZERO for each in request.log_dirs)
