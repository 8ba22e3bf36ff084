"""Reads a MetadataQuorum for the reconcile: its spec for the planner, and state stored in the last status.

Pure functions. The operator writes the status, but other clients may have edited it.
"""

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from quorum_operator import update_windows
from quorum_operator.crd import EarlierClaimsPolicy, MetadataQuorumSpec
from quorum_operator.desired import revision, tls
from quorum_operator.kube.observe import Cluster
from quorum_operator.planner.conditions import CONFIRMED
from quorum_operator.planner.object_facts import Suspicion
from quorum_operator.planner.observed import Confirmation, StorageChoice, Wanted
from quorum_operator.planner.times import seconds_of
from quorum_operator.planner.update_record import UpdateWanted
from quorum_operator.quorum_client import Seen
from quorum_operator.status_crd import MetadataQuorumStatus
from quorum_operator.update_crd import UpdateSpec

Object = dict[str, Any]
M = TypeVar("M", bound=BaseModel)


def wanted_by(spec: MetadataQuorumSpec) -> Wanted:
    """The parts of a spec that the planner needs."""
    recovery, earlier = spec.recovery, spec.earlier_claims
    return Wanted(
        replicas=spec.replicas,
        storage=StorageChoice(spec.storage.size, spec.storage.storage_class_name),
        retire=frozenset(spec.retire or ()),
        replacement_order=spec.replacement_order,
        paused=spec.paused,
        repair_enabled=spec.repair.enabled,
        debounce_s=float(spec.repair.debounce_seconds),
        max_replacements_per_hour=spec.repair.max_replacements_per_hour,
        unreachable_after_s=spec.repair.unreachable_after_seconds,
        adopt=earlier.cluster_id,
        leave_claims=earlier.policy is EarlierClaimsPolicy.LEAVE,
        cluster_id=spec.cluster_id,
        keep_failed_s=spec.storage.keep_failed_s,
        restores=spec.restore_from is not None,
        tls_mode=spec.tls.mode if spec.tls is not None else None,
        recovery=Confirmation(recovery.id, recovery.uuid, recovery.epoch, recovery.end_offset)
        if recovery
        else None,
    )


def update_wanted(spec: MetadataQuorumSpec, now: float) -> UpdateWanted | None:
    """The update settings of the spec; `now`: seconds since 1970."""
    update = spec.update
    if update is None:
        return None
    return UpdateWanted(
        revision=revision.wanted(spec),
        attempt=update.attempt,
        soak_s=float(update.soak_seconds),
        timeout_s=float(update.canary_timeout_seconds),
        hold=_update_hold(update, now),
    )


def _update_hold(update: UpdateSpec, now: float) -> str | None:
    if update.paused:
        return "spec.update.paused is set"
    if not update.windows:
        return None
    try:
        return update_windows.hold(update.windows, now)
    except ValueError as error:
        return f"spec.update.windows can't be used: {error}"


def unusable_windows(spec: MetadataQuorumSpec) -> str | None:
    """Problems of maintenance windows that CEL can't check. Invalid windows count as closed."""
    windows = spec.update.windows if spec.update is not None else None
    try:
        for each in windows or ():
            update_windows.window(each)
    except ValueError as error:
        return (
            f"spec.update.windows: {error}. Until it is corrected no update begins, and no member is added or moved; "
            "failed members are replaced all the same"
        )
    return None


def newest_seen(earlier: MetadataQuorumStatus) -> Seen:
    """Epochs of the newest confirmed description, from the last status."""
    if earlier.newest_epoch is None:
        return Seen()
    return Seen(earlier.cluster_id, earlier.newest_epoch, earlier.recovered_epoch or 0)


def suspicions(earlier: MetadataQuorumStatus, now: float) -> dict[tuple[int, int], Suspicion]:
    """Indirect signs of failures with their start, by member id and incarnation."""
    return {
        (each.id, each.incarnation): Suspicion(
            suspected.reason, suspected.subject, _past(suspected.since, now)
        )
        for each in earlier.members
        if (suspected := each.suspected) is not None and each.incarnation is not None
    }


def unreachable_since(earlier: MetadataQuorumStatus, now: float) -> dict[tuple[int, int], float]:
    """Start of unreachability by member id and incarnation."""
    return {
        (each.id, each.incarnation): _past(each.unreachable_since, now)
        for each in earlier.members
        if each.unreachable_since is not None and each.incarnation is not None
    }


def unconfirmed_since(earlier: MetadataQuorumStatus, now: float) -> float | None:
    """Since when no majority confirms a leader; None if one does."""
    for condition in earlier.conditions:
        if condition.type == CONFIRMED and condition.status == "False":
            return _past(condition.last_transition_time, now)
    return None


def _past(text: str, now: float) -> float:
    """Parse a time in the status, limited to `now`. A time in the future comes from another client, or the clock was set
    back; without the limit nothing would be due until then.
    """
    return min(seconds_of(text), now)


def earlier_status(resource: Object) -> MetadataQuorumStatus:
    """The last status, without unreadable edits by other clients."""
    return readable(MetadataQuorumStatus, resource.get("status"))


def readable(model: type[M], written: Object | None) -> M:
    """Parse a status, without fields that can't be parsed because another client has edited them."""
    document = dict(written or {})
    while True:
        try:
            return model.model_validate(document)
        except ValidationError as error:
            wrong = {str(each["loc"][0]) for each in error.errors() if each["loc"]} & set(document)
            if not wrong:
                return model()
            for key in wrong:
                del document[key]


def problems_of(error: ValidationError) -> str:
    """Problems of a spec, in one line."""
    return "; ".join(
        f"spec.{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()[:4]
    )


def spec_problem(spec: MetadataQuorumSpec, cluster: Cluster) -> str | None:
    """Problems of the spec that CEL can't check."""
    wrong = unmakeable(spec, cluster) or tls.contradiction(spec, cluster.identities)
    return wrong or unusable_windows(spec)


def unmakeable(spec: MetadataQuorumSpec, cluster: Cluster) -> str | None:
    """Problems of the spec that prevent the creation of any member."""
    if cluster.storage_class_exists:
        return None
    return (
        f"there is no StorageClass {spec.storage.storage_class_name!r}: create it, or"
        " correct spec.storage.storageClassName"
    )
