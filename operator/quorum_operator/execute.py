"""Executes exactly one step: conditionally and idempotently.

Owns the API calls of each step. Every write is create-only, or conditional on the version of the object that was
observed, or a compare-and-set on the voters record. A lost race, or a rejection by the API server or a node, is an
outcome, not an error.
"""

import json
from typing import Any

from quorum_node.fresh_uuid import fresh_uuid
from quorum_node.records.identity import uuid_text
from quorum_operator.attempts import Refused
from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.desired import base_objects, identity, names, stateful_set, tls
from quorum_operator.desired.accepted_template import with_accepted_template
from quorum_operator.desired.names import Owner
from quorum_operator.kube import facts, paths
from quorum_operator.kube.claim_writer import ClaimWriter
from quorum_operator.kube.claims import has_room_for
from quorum_operator.kube.client import KubeApi
from quorum_operator.kube.drift import ZERO, template_drift
from quorum_operator.kube.errors import AlreadyExists, ApiError, Forbidden, Invalid
from quorum_operator.kube.hosts import all_have_zones
from quorum_operator.kube.token import read_token
from quorum_operator.outcome import Outcome, not_done, together
from quorum_operator.owned_objects import OwnedObjects
from quorum_operator.planner import step as steps
from quorum_operator.planner.evidence import CIRCUMSTANCES
from quorum_operator.planner.formation_defaults import Defaults, FormationDefault
from quorum_operator.planner.object_facts import LabelDrift
from quorum_operator.planner.observed import (
    FailureLatch,
    Founding,
    Identity,
    Incarnation,
    Key,
    Observation,
)
from quorum_operator.planner.recovery import holds_still
from quorum_operator.planner.refusals import subject_of
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.tls_stage import TlsStage
from quorum_operator.quorum_client import QuorumClient
from quorum_operator.refused import by_node
from quorum_operator.safety_check import safety_check

NOT_SAFE_NOW = "NotSafeNow"
"""Reason: the safety check before a step found that it would do harm."""


class Executor:
    """Executes steps for one quorum, as seen in one observation."""

    def __init__(
        self,
        api: KubeApi,
        nodes: QuorumClient,
        owner: Owner,
        spec: MetadataQuorumSpec,
        seen: Observation,
    ) -> None:
        self._api, self._nodes = api, nodes
        self._owner, self._spec, self._seen = owner, spec, seen
        self._claims = ClaimWriter(api, owner)

    async def execute(self, step: steps.Step) -> Outcome:
        """Execute the step once. Raises ApiError only if the API server as a whole is unavailable."""
        try:
            harm = await safety_check(self._api, self._nodes, self._owner, self._seen, step)
            if harm is not None:
                return _harmful(subject_of(self._seen, step), harm)
            return await self._execute(step)
        except ApiError as error:
            return not_done(subject_of(self._seen, step), error)

    async def _execute(self, step: steps.Step) -> Outcome:
        match step:
            case steps.CreateIdentity():
                return await self._create_identity(step)
            case steps.RebuildIdentity():
                return await self._rebuild_identity(step)
            case steps.AdoptObject():
                return await self._adopt(step)
            case steps.ApplyObjects():
                return await self._apply_objects(step)
            case steps.RestoreLabels(objects):
                return await self._restore_labels(objects)
            case steps.CreateMember():
                return await self._create_member(step)
            case steps.RebuildMember():
                return await self._rebuild_member(step)
            case steps.UpdateMember():
                return await self._update_member(step)
            case steps.ExpandVolume():
                return await self._expand(step)
            case steps.RecordReplicaUuid(target, replica_uuid):
                await self._claims.mark(self._incarnation(target.name), uuid=replica_uuid)
                return await self._annotate(target, {names.ANNOTATION_UUID: replica_uuid})
            case steps.RecordFormed(index):
                return await self._record_formed(index)
            case steps.RecordTlsStage() | steps.RecordUpdate():
                return await self._note_identity(step)
            case steps.LatchFailure(target, latch):
                return await self._latch(target, latch)
            case steps.Unlatch(target, latched_at):
                return await self._unlatch(target, latched_at)
            case steps.BeginRecovery(target, survivor):
                note = facts.recovery_text(survivor, given_up=False)
                return await self._annotate_as_seen(target, {names.ANNOTATION_RECOVERY: note})
            case steps.GiveUpRecovery(target, survivor):
                note = facts.recovery_text(survivor, given_up=True)
                return await self._annotate_as_seen(target, {names.ANNOTATION_RECOVERY: note})
            case steps.ScaleToZero(target, why):
                return await self._stop(target, why)
            case steps.StartMember(target):
                each = self._incarnation(target.name)
                await self._claims.mark(each, fenced=None, removed=None)
                return await self._annotate(target, {names.ANNOTATION_STOPPED: None}, replicas=1)
            case steps.AddVoter() | steps.RemoveVoter() | steps.TransferLeadership():
                return await self._change_quorum(step)
            case steps.RestartMember():
                return await self._restart(step)
            case steps.DeleteStrayPod(pod, uid):
                path = paths.namespaced("pods", self._owner.namespace, pod)
                await self._api.delete(path, uid=uid)
                return Outcome(True)
            case steps.DeleteIncarnation(target):
                await self._api.delete(
                    self._set(target.name),
                    uid=target.uid,
                    resource_version=target.resource_version,
                )
                return Outcome(True)
            case steps.DiscardVolume(target):
                return Outcome(await self._claims.own(self._incarnation(target.name)))
            case steps.GuardDrains(least_ready):
                return await self._guard_drains(least_ready)
            case steps.Wait() | steps.Nothing():
                return Outcome(False)

    def _set(self, name: str) -> str:
        return paths.namespaced("statefulsets", self._owner.namespace, name)

    def _identity(self, index: int) -> Identity:
        return next(each for each in self._seen.identities if each.index == index)

    async def _create_identity(self, step: steps.CreateIdentity) -> Outcome:
        own = self._spec.cluster_id if step.index == 1 else None
        body = identity.build(
            self._owner,
            index=step.index,
            cluster_id=own or uuid_text(fresh_uuid()),
            founder_id=step.founder_id,
            founder_uuid=uuid_text(fresh_uuid()),
            initial_voters=step.initial_voters,
            defaults=await self._defaults(),
            tls=tls.stage_of(self._spec, self._seen.identities) is TlsStage.CLOSED,
        )
        return await self._create_identity_object(step.index, body)

    async def _defaults(self) -> Defaults:
        """Defaults of a new quorum. Members are spread over zones if all Nodes have one."""
        always = {FormationDefault.RESOURCES, FormationDefault.NO_MEMBERSHIP}
        zoned = {FormationDefault.ZONES} if await all_have_zones(self._api) else frozenset()
        return frozenset(always | zoned)

    async def _create_identity_object(
        self, index: int, body: dict[str, Any], known: str | None = None
    ) -> Outcome:
        """Create an identity. A damaged object of this resource is deleted first: its data is not that of an identity,
        or its cluster id differs from the `known` correct one.
        """
        collection = paths.namespaced("configmaps", self._owner.namespace)
        try:
            await self._api.create(collection, body)
        except AlreadyExists:
            path = f"{collection}/{body['metadata']['name']}"
            found = await self._api.get(path)
            there = None if found is None else facts.identity_facts(found, index)
            if found is None or (there is not None and known in (None, there.cluster_id)):
                raise
            if not base_objects.is_ours(found, self._owner):
                raise  # It may be the only copy of its data.
            await self._api.delete(path, uid=found["metadata"]["uid"])
            await self._api.create(collection, body)
        return Outcome(True)

    async def _adopt(self, step: steps.AdoptObject) -> Outcome:
        path = paths.namespaced(paths.plural_of(step.kind), self._owner.namespace, step.name)
        meta: dict[str, Any] = {"uid": step.uid, "resourceVersion": step.resource_version}
        # Not beside other owners: with one of them left its pod would outlive the resource.
        meta["ownerReferences"] = [self._owner.reference()]
        await self._api.merge(path, {"metadata": meta})
        return Outcome(True)

    async def _rebuild_identity(self, step: steps.RebuildIdentity) -> Outcome:
        founding = step.founding or Founding(0, "", self._spec.replicas)
        body = identity.build(
            self._owner,
            index=step.index,
            cluster_id=step.cluster_id,
            founder_id=founding.founder_id,
            founder_uuid=founding.founder_uuid,
            initial_voters=founding.initial_voters,
            formed=step.formed,
            network_policy=step.network_policy,
            defaults=step.defaults,
            tls=step.tls,
            migration=step.migration,
        )
        return await self._create_identity_object(step.index, body, step.cluster_id)

    async def _apply_objects(self, step: steps.ApplyObjects) -> Outcome:
        owned = OwnedObjects(
            self._api, self._owner, self._spec, self._seen.identities, self._seen.drain_floor
        )
        return await owned.apply(step.objects)

    async def _restore_labels(self, objects: tuple[LabelDrift, ...]) -> Outcome:
        """Restore labels of exactly the observed objects. Kubernetes assigns pods to StatefulSets by them."""
        return together([await self._restore(each) for each in objects])

    async def _restore(self, each: LabelDrift) -> Outcome:
        path = paths.namespaced(paths.plural_of(each.kind), self._owner.namespace, each.name)
        meta: dict[str, Any] = {"uid": each.uid, "labels": dict(each.labels)}
        if each.shared:
            meta["ownerReferences"] = [self._owner.reference()]
        body = {"metadata": meta}
        try:
            await self._api.merge(path, body)
        except ApiError as error:
            return not_done(f"{each.kind}/{each.name}", error)
        return Outcome(True)

    async def _create_member(self, step: steps.CreateMember) -> Outcome:
        member = stateful_set.Member(
            node_id=step.node_id,
            number=step.number,
            identity=self._identity(step.formation),
            founder=step.founder,
            replaces=step.replaces,
            predecessor=step.predecessor,
        )
        body = stateful_set.build(self._owner, self._spec, member)
        name = self._owner.claim(self._owner.member(step.node_id, step.number))
        claim = paths.namespaced("persistentvolumeclaims", self._owner.namespace, name)
        if await self._api.get(claim) is not None:
            # A new member starts with an empty disk. With this claim it would start with existing
            # data.
            raise AlreadyExists(
                409, "AlreadyExists", f"PersistentVolumeClaim {name} already exists"
            )
        return await self._create_set(body, repairs=step.replaces is not None)

    async def _create_set(self, body: dict[str, Any], *, repairs: bool) -> Outcome:
        path = paths.namespaced("statefulsets", self._owner.namespace)
        try:
            await self._api.create(path, body)
        except (Invalid, Forbidden) as error:
            made = await self._create_as_accepted(path, body) if repairs else None
            if made is None:
                raise
            return Outcome(
                True,
                f"created from the template of {made}, because the current one is rejected: {error.message}",
            )
        return Outcome(True)

    async def _create_as_accepted(self, path: str, body: dict[str, Any]) -> str | None:
        """Create the StatefulSet from another member's template. Returns that member's name, or None if it is rejected too."""
        for each in self._seen.incarnations:
            accepted = await self._api.get(self._set(each.name)) if each.failed is None else None
            if accepted is None:
                continue
            try:
                await self._api.create(path, with_accepted_template(body, accepted))
            except (Invalid, Forbidden):
                return None
            return each.name
        return None

    async def _rebuild_member(self, step: steps.RebuildMember) -> Outcome:
        lone = step.claim
        # The observation may be outdated: a claim that was marked since must not be used again.
        changed = await self._claims.release(lone)
        if changed is not None:
            return Outcome(True, f"changed meanwhile: {changed}")
        marks = lone.claim.marks
        recovery, given_up = facts.recovery_facts(marks.recovery)
        note = marks.recovery
        if recovery is not None and not given_up:
            at = Situation(self._seen)
            given_up = not holds_still(at, lone.node_id, marks.uuid, recovery)
            note = facts.recovery_text(str(recovery), given_up=given_up)
        member = stateful_set.Member(
            node_id=lone.node_id,
            number=lone.number,
            identity=self._identity(step.formation),
            founder=step.founder,
            recovery=None if given_up else recovery,
            replica_uuid=marks.uuid,
            storage=lone.storage,
            recovery_note=note,
        )
        body = stateful_set.build(self._owner, self._spec, member)
        return await self._create_set(body, repairs=True)

    async def _update_member(self, step: steps.UpdateMember) -> Outcome:
        each = self._incarnation(step.target.name)
        owned = stateful_set.founder_or_member(each, self._identity(each.formation))
        body = stateful_set.build(self._owner, self._spec, owned)
        spec, notes = body["spec"], body["metadata"]["annotations"]
        policy = "persistentVolumeClaimRetentionPolicy"
        note = names.ANNOTATION_TEMPLATE.replace("/", "~1")
        if each.replicas == 0 and spec[policy]["whenDeleted"] == "Retain":
            await self._claims.disown(each)
        made = await self._api.patch(
            self._set(step.target.name),
            [
                *_same(step.target),
                {"op": "replace", "path": "/spec/template", "value": spec["template"]},
                {"op": "add", "path": f"/spec/{policy}", "value": spec[policy]},
                {"op": "add", "path": "/spec/updateStrategy", "value": spec["updateStrategy"]},
                *_back_to_zero(each.drift),
                {
                    "op": "add",
                    "path": f"/metadata/annotations/{note}",
                    "value": notes[names.ANNOTATION_TEMPLATE],
                },
            ],
        )
        left = template_drift(body, made)
        if left is None:
            return Outcome(True)
        message = (
            f"the API server stored {left} differently from what was sent: an admission webhook changed it, or the "
            "field is unknown"
        )
        return Outcome(True, message, left=left)

    async def _expand(self, step: steps.ExpandVolume) -> Outcome:
        """Expand the claim before the annotation of the StatefulSet, which would otherwise mark the expansion as
        done. A claim that was expanded further by another client stays as it is, because no claim can shrink.
        """
        note = {names.ANNOTATION_STORAGE: stateful_set.storage_text(step.storage)}
        body: dict[str, Any] = {"metadata": {"uid": step.claim_uid, "annotations": note}}
        path = paths.namespaced("persistentvolumeclaims", self._owner.namespace, step.claim)
        if not has_room_for(await self._api.get(path), step.storage.size):
            body["spec"] = {"resources": {"requests": {"storage": step.storage.size}}}
        await self._api.merge(path, body)
        return await self._annotate(step.target, {**note})

    def _incarnation(self, name: str) -> Incarnation:
        return next(each for each in self._seen.incarnations if each.name == name)

    async def _annotate(
        self, target: steps.Target, notes: dict[str, str | None], **spec: object
    ) -> Outcome:
        """Annotate, conditional on the UID only: these facts stay valid if the object has changed otherwise."""
        body: dict[str, Any] = {"metadata": {"uid": target.uid, "annotations": notes}}
        if spec:
            body["spec"] = spec
        await self._api.merge(self._set(target.name), body)
        return Outcome(True)

    async def _stop(self, target: steps.Target, why: str) -> Outcome:
        notes: dict[str, str | None] = {names.ANNOTATION_STOPPED: why}
        each = self._incarnation(target.name)
        await self._claims.mark_stopped(each, why)
        # Another client may have set that a stopped member loses its claim.
        stop: dict[str, Any] = {
            "replicas": 0,
            "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Retain"},
        }
        if each.failed is not None and each.failed.reason not in CIRCUMSTANCES:
            # A proven failure is never revoked, so no newer observation can contradict it.
            return await self._annotate(target, notes, **stop)
        return await self._annotate_as_seen(target, notes, **stop)

    async def _latch(self, target: steps.Target, latch: FailureLatch) -> Outcome:
        notes: dict[str, str | None] = {names.ANNOTATION_FAILED: facts.latch_text(latch)}
        each = self._incarnation(target.name)
        if latch.reason in CIRCUMSTANCES:
            # This latch can be revoked: the claim is marked after the StatefulSet, and before
            # the member is stopped.
            return await self._annotate_as_seen(target, notes)
        await self._claims.mark(each, uuid=each.uuid, failed=latch)
        return await self._annotate(target, notes)

    async def _unlatch(self, target: steps.Target, latched_at: float) -> Outcome:
        each = self._incarnation(target.name)
        # The claim first: while it is marked failed, the member would be latched again.
        await self._claims.mark(each, failed=None)
        times = facts.unlatched_text((*each.unlatched_at, latched_at))
        notes = {names.ANNOTATION_FAILED: None, names.ANNOTATION_TAKEN_BACK: times}
        return await self._annotate_as_seen(target, notes)

    async def _annotate_as_seen(
        self, target: steps.Target, notes: dict[str, str | None], **spec: object
    ) -> Outcome:
        """Annotate, conditional on the observed version."""
        meta = {"uid": target.uid, "resourceVersion": target.resource_version}
        body: dict[str, Any] = {"metadata": {**meta, "annotations": notes}}
        if spec:
            body["spec"] = spec
        await self._api.merge(self._set(target.name), body)
        return Outcome(True)

    async def _record_formed(self, index: int) -> Outcome:
        path = paths.namespaced("configmaps", self._owner.namespace, self._owner.identity(index))
        body = {"metadata": {"annotations": {names.ANNOTATION_FORMED: "true"}}}
        await self._api.merge(path, body)
        return Outcome(True)

    async def _guard_drains(self, least_ready: int) -> Outcome:
        path = paths.namespaced("poddisruptionbudgets", self._owner.namespace, self._owner.name)
        await self._api.merge(path, {"metadata": {}, "spec": {"minAvailable": least_ready}})
        return Outcome(True)

    async def _note_identity(self, step: steps.RecordTlsStage | steps.RecordUpdate) -> Outcome:
        """Annotate the observed identity."""
        space, name = self._owner.namespace, self._owner.identity(step.index)
        meta = {"resourceVersion": step.version, "annotations": _identity_notes(step)}
        await self._api.merge(paths.namespaced("configmaps", space, name), {"metadata": meta})
        return Outcome(True)

    async def _restart(self, step: steps.RestartMember) -> Outcome:
        space = self._owner.namespace
        identity_path = paths.namespaced("configmaps", space, self._owner.identity(step.identity))
        notes = {names.ANNOTATION_RESTARTING: step.pod_uid}
        meta = {"resourceVersion": step.identity_version, "annotations": notes}
        await self._api.merge(identity_path, {"metadata": meta})
        await self._api.delete(paths.namespaced("pods", space, step.pod), uid=step.pod_uid)
        return Outcome(True)

    async def _change_quorum(
        self, step: steps.AddVoter | steps.RemoveVoter | steps.TransferLeadership
    ) -> Outcome:
        view = self._seen.view
        assert view is not None
        subject = subject_of(self._seen, step)
        leader = self._address(view.leader)
        token = await read_token(self._api, self._owner)
        if leader is None or token is None:
            text = (
                f"leader {view.leader.id} can't be called: its pod is not one of this quorum's pods, or the admin token no "
                "longer exists. If that pod runs without a StatefulSet, delete it: the other voters elect a new leader"
            )
            return Outcome(False, text, (Refused(subject, "NoAddress", text, 0.2, 15.0, 5),), True)
        match step:
            case steps.AddVoter(key, incarnation, position, count_newcomer):
                host = self._owner.host(incarnation)
                answer = await self._nodes.add_voter(
                    leader, token, key, host, position, count_newcomer=count_newcomer
                )
            case steps.RemoveVoter(key, position):
                answer = await self._nodes.remove_voter(leader, token, key, position)
            case steps.TransferLeadership(_, successor):
                answer = await self._nodes.resign(leader, token, successor.id)
        if answer.done:
            return Outcome(True)
        message = json.dumps({"code": answer.code, "message": answer.message})
        return Outcome(False, message, (by_node(subject, answer),), True)

    def _address(self, key: Key) -> str | None:
        for each in self._seen.incarnations:
            if each.key == key and each.pod is not None:
                return each.pod.ip
        return None


def _identity_notes(step: steps.RecordTlsStage | steps.RecordUpdate) -> dict[str, str | None]:
    match step:
        case steps.RecordTlsStage(_, stage):
            return {names.ANNOTATION_TLS_STAGE: stage.value}
        case steps.RecordUpdate(_, record):
            text = None if record is None else facts.update_text(record)
            return {names.ANNOTATION_UPDATE: text}


def _same(target: steps.Target) -> list[dict[str, Any]]:
    return [
        {"op": "test", "path": "/metadata/uid", "value": target.uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": target.resource_version},
    ]


def _back_to_zero(drift: str | None) -> list[dict[str, Any]]:
    """Patch operations that reset the fields in ZERO, if another client has set one of them."""
    if drift not in ZERO:
        return []
    values: dict[str, Any] = {"/spec/ordinals": {"start": 0}, "/spec/minReadySeconds": 0}
    return [{"op": "add", "path": path, "value": value} for path, value in values.items()]


def _harmful(subject: str, harm: str) -> Outcome:
    """The outcome of a step that is not safe now; the next reconcile observes again."""
    refused = Refused(subject, NOT_SAFE_NOW, harm, 0.2, 15.0, 3)
    return Outcome(False, harm, (refused,), True)
