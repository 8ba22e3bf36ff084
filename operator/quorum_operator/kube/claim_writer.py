"""Writes annotations on exactly the claims that were observed.

A write is conditional on the claim's UID, because a newer claim of the same name belongs to another volume. A deleted
claim needs no annotations.
"""

from dataclasses import replace
from typing import Any

from quorum_operator.desired.names import Owner
from quorum_operator.kube import paths
from quorum_operator.kube.claims import claim_facts, marks_notes
from quorum_operator.kube.client import KubeApi
from quorum_operator.kube.errors import Conflict, NotFound
from quorum_operator.planner.claim_marks import ClaimNote
from quorum_operator.planner.observed import Incarnation, LoneClaim, Marks
from quorum_operator.planner.situation import FENCED


class ClaimWriter:
    """Writer for the claims of one quorum."""

    def __init__(self, api: KubeApi, owner: Owner) -> None:
        self._api, self._owner = api, owner

    def _path(self, name: str) -> str:
        return paths.namespaced("persistentvolumeclaims", self._owner.namespace, name)

    async def write(self, note: ClaimNote) -> None:
        """Write missing marks of one claim. Raises ApiError on rejection."""
        body = _body(note.uid, _changed(note.before, note.marks), note.resource_version)
        try:
            await self._api.merge(self._path(note.claim), body)
        except (Conflict, NotFound):
            pass  # It was replaced or changed meanwhile: the next reconcile decides.

    async def mark(self, each: Incarnation, **marks: Any) -> None:
        """Write marks on a member's claim, before they are written on its StatefulSet."""
        claim = each.claim
        if claim is None:
            return
        changed = _changed(claim.marks, replace(claim.marks, **marks))
        if not changed:
            return
        try:
            await self._api.merge(self._path(claim.name), _body(claim.uid, changed, None))
        except (Conflict, NotFound):
            pass

    async def mark_stopped(self, each: Incarnation, why: str) -> None:
        """Write why a member is stopped, with its replica UUID."""
        if each.failed is not None:
            await self.mark(each, uuid=each.uuid, failed=each.failed)
        elif why.startswith(FENCED):
            await self.mark(each, uuid=each.uuid, fenced=why)
        else:
            await self.mark(each, uuid=each.uuid, removed=why)

    async def own(self, each: Incarnation) -> bool:
        """Make a member's StatefulSet an owner of its claim. Returns whether the claim is still the observed one."""
        assert each.claim is not None
        path = self._path(each.claim.name)
        found = await self._api.get(path)
        if found is None or found["metadata"]["uid"] != each.claim.uid:
            return False
        meta = found["metadata"]
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": each.name, "uid": each.uid}
        others = [e for e in meta.get("ownerReferences") or [] if e.get("uid") != each.uid]
        body = {
            "uid": each.claim.uid,
            "resourceVersion": meta["resourceVersion"],
            "ownerReferences": [*others, owner],
        }
        await self._api.merge(path, {"metadata": body})
        return True

    async def disown(self, each: Incarnation) -> None:
        """Remove a member's StatefulSet from the owners of its claim. The StatefulSet controller does that only while
        there is a pod.
        """
        if each.claim is None:
            return
        path = self._path(each.claim.name)
        found = await self._api.get(path)
        owners = (found or {"metadata": {}})["metadata"].get("ownerReferences") or []
        kept = [other for other in owners if other.get("uid") != each.uid]
        if found is None or found["metadata"]["uid"] != each.claim.uid or kept == owners:
            return
        version = found["metadata"]["resourceVersion"]
        body = {"uid": each.claim.uid, "resourceVersion": version, "ownerReferences": kept}
        await self._api.merge(path, {"metadata": body})

    async def release(self, lone: LoneClaim) -> str | None:
        """Prepare a claim for the member that will use it again. Returns what changed meanwhile; None if nothing did."""
        found = await self._api.get(self._path(lone.claim.name))
        now = None if found is None else claim_facts(found)
        going = now is not None and now.deleting and not (lone.in_use and lone.claim.deleting)
        if now is None or going or now.uid != lone.claim.uid:
            return f"{lone.claim.name} is gone"
        if now.marks != lone.claim.marks:
            return f"{lone.claim.name} has different marks now"
        marks = replace(now.marks, fenced=None, resource_uid=self._owner.uid)
        if marks != now.marks:
            body = _body(now.uid, marks_notes(marks), now.resource_version)
            await self._api.merge(self._path(lone.claim.name), body)
        return None


def _changed(before: Marks, marks: Marks) -> dict[str, str | None]:
    """Changed annotations; None removes one. Unchanged ones are left out, since another client may have changed them
    meanwhile.
    """
    old = marks_notes(before)
    return {key: text for key, text in marks_notes(marks).items() if text != old[key]}


def _body(uid: str, notes: dict[str, str | None], version: str | None) -> dict[str, Any]:
    meta: dict[str, Any] = {"uid": uid, "annotations": notes}
    if version:
        meta["resourceVersion"] = version
    return {"metadata": meta}
