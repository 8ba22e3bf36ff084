"""Acts on annotations and finalizers, which users and other tools may write on any object."""

from support.envtest.kube_api import Json
from support.random_changes.act import Act, Doing, Drawn, FinalCondition, act
from support.random_changes.drift import BY_HAND
from support.random_changes.operations import UUID, Operations

_PASSES = (4.0, 15.0)
_PREFIX = "metadataquorum.dev"
_HOLD = "example.com/by-hand"
_PROTECTION = "kubernetes.io/pvc-protection"
_NOTES = ("storage", "replaces", "taken-back", "template-hash", "formation", "recovery", "rebuilt")


def _annotated(operations: Operations, path: str, notes: dict[str, str]) -> None:
    operations.api.merge(path, {"metadata": {"annotations": notes}})


@act()
def edit_set_notes(operations: Operations, drawn: Drawn) -> Doing:
    """Write nonsense into annotations of a StatefulSet."""
    member = operations.member(drawn)
    _annotated(
        operations, operations.set_path(member), {f"{_PREFIX}/{each}": BY_HAND for each in _NOTES}
    )
    yield f"wrote over the annotations of {member.name}"


@act()
def edit_claim_notes(operations: Operations, drawn: Drawn) -> Doing:
    """Write nonsense into annotations of a claim."""
    member = operations.member(drawn)
    path = operations.core("persistentvolumeclaims", member.claim)
    _annotated(
        operations, path, {f"{_PREFIX}/{each}": BY_HAND for each in ("storage", "formation")}
    )
    yield f"wrote over the annotations of {member.claim}"


@act()
def edit_set_uuid(operations: Operations, drawn: Drawn) -> Doing:
    """Write another replica UUID on a StatefulSet."""
    member = operations.member(drawn)
    _annotated(operations, operations.set_path(member), {UUID: "AAAAAAAAAAAAAAAAAAAAAQ"})
    yield f"wrote another UUID on {member.name}"


@act()
def note_set_stopped(operations: Operations, drawn: Drawn) -> Doing:
    """Write on the StatefulSet of a running member that it was stopped."""
    member = operations.member(drawn)
    _annotated(operations, operations.set_path(member), {f"{_PREFIX}/stopped": BY_HAND})
    yield f"noted that {member.name} was stopped"


@act(destroys=1)
def note_set_failed(operations: Operations, drawn: Drawn) -> Doing:
    """Write on the StatefulSet of a running member that its disk failed."""
    member = operations.member(drawn)
    _annotated(operations, operations.set_path(member), {f"{_PREFIX}/failed": BY_HAND})
    yield f"noted that {member.name} failed"


@act()
def note_claim_removed(operations: Operations, drawn: Drawn) -> Doing:
    """Write on the claim of a running member that it is no member's any more."""
    member = operations.member(drawn)
    path = operations.core("persistentvolumeclaims", member.claim)
    _annotated(operations, path, {f"{_PREFIX}/removed": BY_HAND})
    yield f"noted that {member.claim} was left"


def _hold(found: Json) -> None:
    found["metadata"]["finalizers"] = [*(found["metadata"].get("finalizers") or []), _HOLD]


def _release(operations: Operations, path: str) -> None:
    """Does nothing where the object is gone."""
    if operations.api.find(path) is None:
        return

    def change(found: Json) -> None:
        kept = [each for each in found["metadata"].get("finalizers") or [] if each != _HOLD]
        found["metadata"]["finalizers"] = kept

    operations.edit(path, change)


def _releases_all(operations: Operations, message: str) -> str:
    """What the condition says: the finalizers off what is being deleted."""
    paths = [operations.core("pods", each["metadata"]["name"]) for each in operations.pods()]
    paths += [operations.set_path(each) for each in operations.members()]
    for path in paths:
        _release(operations, path)
    return "took the finalizers off"


_HELD = FinalCondition("Degraded", "waits for its finalizers", _releases_all)


@act(destroys=1, lasts_s=_PASSES, endings=(_HELD,))
def hold_set(operations: Operations, drawn: Drawn) -> Doing:
    """Put a finalizer on a StatefulSet and delete it; take the finalizer off after a while."""
    path = operations.set_path(operations.member(drawn))
    operations.edit(path, _hold)
    operations.delete(path)
    yield f"deleted {path}, which a finalizer holds"
    _release(operations, path)


@act(destroys=1, lasts_s=_PASSES, endings=(_HELD,))
def hold_pod(operations: Operations, drawn: Drawn) -> Doing:
    """Put a finalizer on a pod and delete it; take the finalizer off after a while."""
    path = operations.core("pods", operations.member(drawn).pod)
    operations.edit(path, _hold)
    operations.delete(path)
    yield f"deleted {path}, which a finalizer holds"
    _release(operations, path)


@act(destroys=1, endings=(_HELD,))
def hold_pod_left(operations: Operations, drawn: Drawn) -> Doing:
    """Put a finalizer on a pod and delete it, and leave it so."""
    path = operations.core("pods", operations.member(drawn).pod)
    operations.edit(path, _hold)
    operations.delete(path)
    yield f"deleted {path}, which a finalizer holds"


@act(destroys=1)
def unprotect_claim(operations: Operations, drawn: Drawn) -> Doing:
    """Delete a member's claim without the protection that keeps it while its pod runs."""
    member = operations.member(drawn)
    path = operations.core("persistentvolumeclaims", member.claim)

    def change(found: Json) -> None:
        kept = [each for each in found["metadata"].get("finalizers") or [] if each != _PROTECTION]
        found["metadata"]["finalizers"] = kept

    operations.delete(path)
    operations.edit(path, change)
    yield f"deleted {member.claim} from under its pod"


ACTS: tuple[Act, ...] = (
    edit_set_notes,
    edit_claim_notes,
    edit_set_uuid,
    note_set_stopped,
    note_set_failed,
    note_claim_removed,
    hold_set,
    hold_pod,
    hold_pod_left,
    unprotect_claim,
)
