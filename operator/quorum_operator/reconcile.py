"""One reconcile: observe → plan → execute exactly one step → write the status.

Owns the order of these four and what is carried between them; holds no memory that a step rests on, so that
a restarted operator, or a second one, goes on from what is there.
"""

import asyncio
import time
from dataclasses import dataclass
from typing import Any

import structlog
from pydantic import ValidationError

from quorum_operator.crd import PLURAL, MetadataQuorumSpec, MetadataQuorumStatus
from quorum_operator.desired.names import Owner
from quorum_operator.execute import Executor, Outcome
from quorum_operator.kube import paths
from quorum_operator.kube.client import KubeApi
from quorum_operator.kube.errors import ApiError, Conflict, NotFound
from quorum_operator.kube.events import post_event
from quorum_operator.kube.observe import Cluster, observe, with_report
from quorum_operator.metrics import Metrics
from quorum_operator.planner.conditions import CONFIRMED
from quorum_operator.planner.news import news
from quorum_operator.planner.observed import (
    Confirmation,
    Incarnation,
    Observation,
    StorageChoice,
    Wanted,
)
from quorum_operator.planner.plan import plan
from quorum_operator.planner.status import build_status, seconds_of
from quorum_operator.planner.step import LatchFailure, Step, Wait, changes_something
from quorum_operator.quorum_client import Described, QuorumClient, Seen, describe_newest

Object = dict[str, Any]

RETRY_REFUSED_S = 0.2
RETRY_REFUSED_MAX_S = 5.0
OBJECTS_PERIOD_S = 20.0

_log = structlog.get_logger("quorum_operator")


@dataclass(frozen=True, slots=True)
class Next:
    """When to look again: seconds, or None for the resync period. `gone`: never, as the resource is gone or done."""

    after_s: float | None = None
    gone: bool = False


class Reconciler:
    """Reconciles any MetadataQuorum."""

    def __init__(self, api: KubeApi, nodes: QuorumClient, metrics: Metrics) -> None:
        self._api, self._nodes, self._metrics = api, nodes, metrics
        self._checked: dict[str, tuple[int, float]] = {}
        """Resource UID → generation and time at which all services and the like were in order."""
        self._refused: dict[str, tuple[str, int]] = {}
        """Resource UID → what was refused last, and how often in a row."""

    async def reconcile(self, namespace: str, name: str) -> Next:
        """One pass; raises ApiError when the API server can't be used."""
        path = paths.namespaced(PLURAL, namespace, name)
        resource = await self._api.get(path)
        if resource is None:
            return Next(gone=True)
        owner = Owner(name, namespace, resource["metadata"]["uid"])
        try:
            spec = MetadataQuorumSpec.model_validate(resource.get("spec", {}))
            earlier = MetadataQuorumStatus.model_validate(resource.get("status") or {})
        except ValidationError as error:
            _log.error("resource does not validate", quorum=name, error=str(error))
            return Next()
        seen = await self._observe(owner, spec, resource, earlier)
        step = plan(seen)
        outcome = await self._execute(owner, spec, seen, step)
        refusals = self._count_refusals(owner, step, outcome)
        status = build_status(seen, step, earlier, owner.selector)
        await asyncio.gather(
            self._tell(owner, step, outcome, refusals),
            self._tell_news(owner, status, earlier),
            self._write_status(path, resource, status, earlier, owner),
        )
        return _next(step, outcome, refusals)

    def _count_refusals(self, owner: Owner, step: Step, outcome: Outcome) -> int:
        if outcome.changed or not changes_something(step):
            self._refused.pop(owner.uid, None)
            return 0
        last, times = self._refused.get(owner.uid, ("", 0))
        times = times + 1 if last == outcome.message else 1
        self._refused[owner.uid] = (outcome.message, times)
        return times

    def _objects_are_due(self, owner: Owner, resource: Object) -> bool:
        """Services and ConfigMaps need no look in each reconcile of a repair."""
        generation, at = self._checked.get(owner.uid, (0, 0.0))
        current: int = resource["metadata"]["generation"]
        return generation != current or time.monotonic() - at > OBJECTS_PERIOD_S

    async def _observe(
        self,
        owner: Owner,
        spec: MetadataQuorumSpec,
        resource: Object,
        earlier: MetadataQuorumStatus,
    ) -> Observation:
        check = self._objects_are_due(owner, resource)
        cluster = await observe(self._api, owner, spec, check_objects=check)
        if check and not cluster.stale_objects:
            self._checked[owner.uid] = (resource["metadata"]["generation"], time.monotonic())
        incarnations, described = await self._ask_nodes(cluster, _seen(earlier))
        meta = resource["metadata"]
        invalid = None
        if not cluster.storage_class_exists:
            invalid = (
                f"there is no StorageClass {spec.storage.storage_class_name!r}: create it, or"
                " correct spec.storage.storageClassName"
            )
        return Observation(
            now=time.time(),
            name=owner.name,
            generation=meta["generation"],
            wanted=_wanted(spec),
            deleting="deletionTimestamp" in meta,
            identities=cluster.identities,
            stale_objects=cluster.stale_objects,
            incarnations=incarnations,
            used_numbers=cluster.used_numbers,
            templates=cluster.templates,
            view=described.view,
            hinted_voters=described.hinted_voters,
            older_quorum=described.older,
            known_voters=earlier.voters,
            invalid=invalid,
            unconfirmed_since=_unconfirmed_since(earlier),
        )

    async def _ask_nodes(
        self, cluster: Cluster, seen: Seen
    ) -> tuple[tuple[Incarnation, ...], Described]:
        """Reports of all pods at once, then a describe, the likely leader first."""

        async def ask(each: Incarnation) -> Incarnation:
            pod = each.pod
            if pod is None or pod.ip is None or not pod.running:
                return each
            return with_report(each, await self._nodes.report(pod.ip, each.node_id))

        incarnations = tuple(await asyncio.gather(*(ask(each) for each in cluster.incarnations)))
        index = max((each.index for each in cluster.identities), default=0)
        answering = [
            each for each in incarnations if each.report is not None and each.formation == index
        ]
        answering.sort(key=lambda each: (_promise(each), each.node_id, -each.number))
        ips = [each.pod.ip for each in answering if each.pod is not None and each.pod.ip]
        return incarnations, await describe_newest(self._nodes, ips, seen)

    async def _execute(
        self, owner: Owner, spec: MetadataQuorumSpec, seen: Observation, step: Step
    ) -> Outcome:
        if not changes_something(step):
            return Outcome(False)
        name = type(step).__name__
        outcome = await Executor(self._api, self._nodes, owner, spec, seen).execute(step)
        self._metrics.count_step(name, outcome.changed)
        _log.info(
            "step",
            quorum=owner.name,
            namespace=owner.namespace,
            step=name,
            reason=step.reason,
            changed=outcome.changed,
            outcome=outcome.message or None,
        )
        return outcome

    async def _tell(self, owner: Owner, step: Step, outcome: Outcome, refusals: int) -> None:
        """An event on the resource for every step; one that is refused again and again, once."""
        if not changes_something(step) or refusals > 1:
            return
        warning = isinstance(step, LatchFailure) or not outcome.changed
        message = step.reason + (f" — {outcome.message}" if outcome.message else "")
        kind = "Warning" if warning else "Normal"
        await self._post(owner, kind, type(step).__name__, message)

    async def _tell_news(
        self, owner: Owner, status: MetadataQuorumStatus, earlier: MetadataQuorumStatus
    ) -> None:
        """An event for each change of the status that people are told of."""
        for each in news(status, earlier):
            await self._post(owner, each.kind, each.reason, each.message)

    async def _post(self, owner: Owner, kind: str, reason: str, message: str) -> None:
        try:
            await post_event(self._api, owner, kind=kind, reason=reason, message=message)
        except ApiError as error:
            _log.warning("event not posted", quorum=owner.name, error=str(error))

    async def _write_status(
        self,
        path: str,
        resource: Object,
        status: MetadataQuorumStatus,
        earlier: MetadataQuorumStatus,
        owner: Owner,
    ) -> None:
        self._metrics.set_status(owner.namespace, owner.name, status)
        if _comparable(status) == _comparable(earlier):
            return
        body = status.model_dump(mode="json", by_alias=True, exclude_none=True)
        # A merge patch keeps what it does not name: what is gone must be named.
        for key, old in (resource.get("status") or {}).items():
            new = body.setdefault(key, None)
            if isinstance(old, dict) and isinstance(new, dict):
                body[key] = {**dict.fromkeys(old), **new}
        version = resource["metadata"]["resourceVersion"]
        patch = {"metadata": {"resourceVersion": version}, "status": body}
        try:
            await self._api.merge(f"{path}/status", patch)
        except (Conflict, NotFound):
            pass  # the resource has changed: the next reconcile, due at once, writes it


def _promise(each: Incarnation) -> int:
    """Leaders first, then those that follow one, then the rest."""
    role = each.report.role if each.report is not None else ""
    return {"leader": 0, "follower": 1, "observer": 2}.get(role, 3)


def _wanted(spec: MetadataQuorumSpec) -> Wanted:
    said = spec.recovery
    return Wanted(
        replicas=spec.replicas,
        storage=StorageChoice(spec.storage.size, spec.storage.storage_class_name),
        retire=frozenset(spec.retire or ()),
        replacement_order=spec.replacement_order,
        paused=spec.paused,
        repair_enabled=spec.repair.enabled,
        debounce_s=float(spec.repair.debounce_seconds),
        max_replacements_per_hour=spec.repair.max_replacements_per_hour,
        recovery=Confirmation(said.id, said.uuid, said.epoch, said.end_offset) if said else None,
    )


def _seen(earlier: MetadataQuorumStatus) -> Seen:
    if earlier.newest_epoch is None:
        return Seen()
    return Seen(earlier.cluster_id, earlier.newest_epoch, earlier.recovered_epoch or 0)


def _unconfirmed_since(earlier: MetadataQuorumStatus) -> float | None:
    for condition in earlier.conditions:
        if condition.type == CONFIRMED and condition.status == "False":
            return seconds_of(condition.last_transition_time)
    return None


def _comparable(status: MetadataQuorumStatus) -> Object:
    """The status without what changes all the time and alone is worth no write."""
    document = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    for member in document["members"]:
        member.pop("lag", None)
    return document


def _next(step: Step, outcome: Outcome, refusals: int) -> Next:
    if isinstance(step, Wait):
        return Next(step.retry_after_s)
    if outcome.changed:
        return Next(0.0)
    if changes_something(step):
        return Next(min(RETRY_REFUSED_S * 2 ** min(refusals - 1, 8), RETRY_REFUSED_MAX_S))
    return Next()
