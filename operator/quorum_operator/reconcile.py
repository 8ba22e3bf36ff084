"""One reconcile: observe → plan → execute exactly one step → write the status.

Owns the order of these four and what is carried between them; holds no memory that a step rests on, so that
a restarted operator, or a second one, goes on from what is there. A step that is refused is held back for a while, and
the plan goes on without it; the status is written whatever was refused.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import structlog
from pydantic import ValidationError

from quorum_operator.attempts import Attempts, Refused
from quorum_operator.crd import (
    PLURAL,
    EarlierClaimsPolicy,
    MetadataQuorumSpec,
    MetadataQuorumStatus,
)
from quorum_operator.desired.names import Owner
from quorum_operator.execute import Executor
from quorum_operator.kept_reports import KeptReports
from quorum_operator.kube import paths
from quorum_operator.kube.client import KubeApi
from quorum_operator.kube.errors import ApiError
from quorum_operator.kube.finding import Reads
from quorum_operator.kube.observe import Cluster, observe, with_report
from quorum_operator.kube.searches import Searches
from quorum_operator.mark_keeper import MarkKeeper
from quorum_operator.metrics import Metrics
from quorum_operator.other_ways import OtherWays
from quorum_operator.outcome import Outcome
from quorum_operator.planner.conditions import CONFIRMED
from quorum_operator.planner.observed import (
    Confirmation,
    Incarnation,
    Observation,
    StorageChoice,
    Suspicion,
    Wanted,
)
from quorum_operator.planner.plan import plan
from quorum_operator.planner.refusals import next_attempt, subjects_of
from quorum_operator.planner.status import build_status, seconds_of
from quorum_operator.planner.step import Step, UpdateMember, Wait, changes_something
from quorum_operator.quorum_client import Described, QuorumClient, Seen, describe_newest
from quorum_operator.refused import by_api, is_outage
from quorum_operator.report import Reporter, blocked, invalid, same
from quorum_operator.token_checks import TokenChecks

Object = dict[str, Any]

OBJECTS_PERIOD_S = 20.0
MOVING_S = 5.0
"""For so long after a step all looks are live: the watches may not have brought its outcome yet."""
MOST_REFUSED_STEPS = 16
"""Steps that are tried in one reconcile, as long as all are refused."""
WAIT_SHARE = 0.05
"""Of the time that the same is waited for: until the next look."""
WAIT_GROWN_MOST_S = 10.0

_log = structlog.get_logger("quorum_operator")


@dataclass(frozen=True, slots=True)
class Next:
    """When to look again: seconds, or None for the resync period. `gone`: never, as the resource is gone or done."""

    after_s: float | None = None
    gone: bool = False


class Reconciler:
    """Reconciles any MetadataQuorum. `clock`: seconds since 1970, the API server's where it is known."""

    def __init__(
        self,
        api: KubeApi,
        nodes: QuorumClient,
        metrics: Metrics,
        kept: Reads | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api, self._nodes, self._metrics = api, nodes, metrics
        self._clock = clock
        self._kept = kept
        self._moved: dict[str, float] = {}
        """Resource UID → when something was done for it last (monotonic)."""
        self._reports = KeptReports()
        self._checked: dict[str, tuple[int, float]] = {}
        """Resource UID → generation and time at which all services and the like were in order."""
        self._attempts = Attempts()
        self._marks = MarkKeeper(api)
        self._tokens = TokenChecks(nodes)
        self._searches = Searches()
        self._other_ways = OtherWays(nodes)
        self._reporter = Reporter(api, metrics, clock)
        self._waits: dict[str, tuple[str, float]] = {}
        """Resource UID → what is waited for, and since when (monotonic)."""
        self._left: dict[str, str | None] = {}
        """StatefulSet UID → what of its template the API server keeps otherwise than it is sent: not mended again."""
        self._uids: dict[tuple[str, str], str] = {}

    async def reconcile(self, namespace: str, name: str) -> Next:
        """One pass; raises ApiError when the API server can't be used, or does not let the operator look."""
        due = await self._glance(namespace, name)
        return due if due is not None else await self._pass(namespace, name)

    async def _glance(self, namespace: str, name: str) -> Next | None:
        """A look at what watches have brought. None if there is anything to do or to tell: that needs a live look."""
        uid = self._uids.get((namespace, name), "")
        if self._kept is None or time.monotonic() - self._moved.get(uid, -MOVING_S) < MOVING_S:
            return None
        try:
            resource = await self._kept.get(paths.namespaced(PLURAL, namespace, name))
            if resource is None or resource["metadata"]["uid"] != uid:
                return None
            owner, earlier = Owner(name, namespace, uid), _earlier(resource)
            spec = MetadataQuorumSpec.model_validate(resource.get("spec", {}))
            seen = await self._observe(owner, spec, resource, earlier, self._kept)
            refusals = self._attempts.refusals(uid, seen.generation, seen.now)
            seen = replace(seen, refusals=refusals)
            step = plan(seen)
            status = build_status(seen, step, earlier, owner.selector)
        except Exception as error:
            _log.debug("live look instead", quorum=name, error=str(error) or type(error).__name__)
            return None  # whatever it is, it is told by the live look, which meets it as well
        if changes_something(step) or self._marks.due(seen) or not same(status, earlier):
            return None
        self._attempts.settled(uid, seen.generation, seen.now)
        self._metrics.set_status(namespace, name, status)
        return self._wait(owner, step)

    async def _pass(self, namespace: str, name: str) -> Next:
        path = paths.namespaced(PLURAL, namespace, name)
        resource = await self._api.get(path)
        if resource is None:
            self._forget(namespace, name)
            return Next(gone=True)
        owner = Owner(name, namespace, resource["metadata"]["uid"])
        self._uids[namespace, name] = owner.uid
        try:
            spec = MetadataQuorumSpec.model_validate(resource.get("spec", {}))
        except ValidationError as error:
            _log.error("resource does not validate", quorum=name, error=str(error))
            await self._reporter.hold(path, resource, invalid(_problems(error)))
            return Next()
        earlier = _earlier(resource)
        try:
            seen = await self._observe(owner, spec, resource, earlier, self._api)
            await self._marks.write(owner, seen)
            seen, step, due = await self._advance(owner, spec, seen)
            status = build_status(seen, step, earlier, owner.selector)
        except ApiError as error:
            if not is_outage(error):
                await self._reporter.hold(path, resource, blocked(by_api("reading", error)))
            raise
        except Exception as error:
            # A bug, or an object that nobody expected: it is told where people look, and not only in the log.
            text = (
                f"{type(error).__name__}: {error}; the operator's log says more. It is tried again"
            )
            bug = Refused("this resource", "InternalError", text)
            await self._reporter.hold(path, resource, blocked(bug))
            raise
        await self._reporter.write(path, resource, status, earlier, owner)
        return due

    def _forget(self, namespace: str, name: str) -> None:
        uid = self._uids.pop((namespace, name), "")
        self._attempts.forget(uid)
        self._searches.forget(uid)
        self._other_ways.forget(uid)
        self._checked.pop(uid, None)
        self._waits.pop(uid, None)
        self._moved.pop(uid, None)
        self._reports.forget(uid)

    async def _advance(
        self, owner: Owner, spec: MetadataQuorumSpec, seen: Observation
    ) -> tuple[Observation, Step, Next]:
        """One step that changes something; where it is refused, the next one that does not build on it."""
        uid, generation = owner.uid, seen.generation
        for _ in range(MOST_REFUSED_STEPS):
            refusals = self._attempts.refusals(uid, generation, seen.now)
            seen = replace(seen, refusals=refusals)
            step = plan(seen)
            if not changes_something(step):
                self._attempts.settled(uid, generation, seen.now)
                return seen, step, self._wait(owner, step)
            outcome = await self._execute(owner, spec, seen, step)
            if outcome.exists:
                self._searches.widen(uid)
            times = self._note(owner, seen, step, outcome)
            await self._reporter.tell_step(owner, step, outcome, times)
            if outcome.changed or outcome.outdated:
                break
        self._waits.pop(uid, None)
        self._moved[uid] = time.monotonic()
        now = self._clock()
        seen = replace(seen, refusals=self._attempts.refusals(uid, generation, now))
        first = next_attempt(replace(seen, now=now))
        return seen, step, Next(0.0 if outcome.changed or first is None else first.retry_at - now)

    def _note(self, owner: Owner, seen: Observation, step: Step, outcome: Outcome) -> int:
        """Remember what came of it; how often in a row that was so."""
        name, now = type(step).__name__, self._clock()
        of = owner.uid, seen.generation, name
        times = [self._attempts.refused(*of, each, now) for each in outcome.refused]
        if outcome.changed and isinstance(step, UpdateMember):
            self._left[step.target.uid] = outcome.left
        if outcome.changed:
            refused = {each.subject for each in outcome.refused}
            done = [each for each in subjects_of(seen, step) if each not in refused]
            times += [self._attempts.done(*of, each, now) for each in done]
        return min(times, default=1)

    def _wait(self, owner: Owner, step: Step) -> Next:
        """The longer the same is waited for, the longer until the next look; changes wake the operator anyway."""
        if not isinstance(step, Wait):
            self._waits.pop(owner.uid, None)
            return Next()
        now = time.monotonic()
        reason, since = self._waits.get(owner.uid, ("", now))
        if reason != step.reason:
            since = now
        self._waits[owner.uid] = (step.reason, since)
        grown_s = min((now - since) * WAIT_SHARE, WAIT_GROWN_MOST_S)
        return Next(max(step.retry_after_s, grown_s))

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
        reads: Reads,
    ) -> Observation:
        check = self._objects_are_due(owner, resource)
        search = self._searches.begin(owner.uid, earlier, time.monotonic())
        cluster = await observe(
            reads, owner, spec, check_objects=check, known=search.known, wide=search.wide
        )
        if check and not cluster.stale_objects:
            self._checked[owner.uid] = (resource["metadata"]["generation"], time.monotonic())
        asked = await self._ask_nodes(
            owner.uid, cluster, _seen(earlier), all_of_them=reads is self._api
        )
        incarnations, described = asked
        described = await self._other_ways.describe(
            reads, owner, cluster, incarnations, described, _seen(earlier), time.monotonic()
        )
        self._searches.end(owner.uid, cluster, described.view)
        incarnations = await self._tokens.check(incarnations, cluster.token, self._clock())
        suspected, away = suspicions(earlier), unreachable_since(earlier)
        incarnations = tuple(
            replace(
                each,
                suspected=suspected.get((each.node_id, each.number)),
                drift=None if self._left.get(each.uid) == each.drift else each.drift,
                unreachable_since=away.get((each.node_id, each.number)),
            )
            for each in incarnations
        )
        meta = resource["metadata"]
        invalid = None
        if not cluster.storage_class_exists:
            invalid = (
                f"there is no StorageClass {spec.storage.storage_class_name!r}: create it, or"
                " correct spec.storage.storageClassName"
            )
        return Observation(
            now=self._clock(),
            name=owner.name,
            generation=meta["generation"],
            wanted=_wanted(spec),
            deleting="deletionTimestamp" in meta,
            identities=cluster.identities,
            stale_objects=cluster.stale_objects,
            label_drift=cluster.label_drift,
            foreign_objects=cluster.foreign_objects,
            resource_uid=owner.uid,
            incarnations=incarnations,
            lone_claims=cluster.lone_claims,
            used_numbers=cluster.used_numbers,
            templates=cluster.templates,
            view=described.view,
            hinted_voters=described.hinted_voters,
            older_quorum=described.older,
            known_cluster_id=earlier.cluster_id,
            known_voters=earlier.voters,
            invalid=invalid,
            unconfirmed_since=_unconfirmed_since(earlier),
        )

    async def _ask_nodes(
        self, uid: str, cluster: Cluster, seen: Seen, *, all_of_them: bool
    ) -> tuple[tuple[Incarnation, ...], Described]:
        """Reports of all pods at once, then a describe; the describe alone while nothing moves."""
        now = time.monotonic()
        kept = None if all_of_them else self._reports.of(uid, cluster.incarnations, now)
        if kept is not None:
            described = await describe_newest(self._nodes, _addresses(cluster, kept), seen)
            if self._reports.holds(uid, described.view):
                return kept, described

        async def ask(each: Incarnation) -> Incarnation:
            pod = each.pod
            if pod is None or pod.ip is None or not pod.running:
                return each
            return with_report(each, await self._nodes.report(pod.ip, each.node_id))

        incarnations = tuple(await asyncio.gather(*(ask(each) for each in cluster.incarnations)))
        described = await describe_newest(self._nodes, _addresses(cluster, incarnations), seen)
        self._reports.keep(uid, incarnations, described.view, now)
        return incarnations, described

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


def _addresses(cluster: Cluster, incarnations: tuple[Incarnation, ...]) -> list[str]:
    """Who is asked for a description, the likely leader first."""
    formations = [each.index for each in cluster.identities]
    index = max([*formations, *(each.formation for each in incarnations)], default=0)
    answering = [
        each for each in incarnations if each.report is not None and each.formation == index
    ]
    answering.sort(key=lambda each: (_promise(each), each.node_id, -each.number))
    ips = [each.pod.ip for each in answering if each.pod is not None and each.pod.ip]
    return ips + [stray.ip for stray in cluster.strays]


def _promise(each: Incarnation) -> int:
    """Leaders first, then those that follow one, then the rest."""
    role = each.report.role if each.report is not None else ""
    return {"leader": 0, "follower": 1, "observer": 2}.get(role, 3)


def _wanted(spec: MetadataQuorumSpec) -> Wanted:
    said, earlier = spec.recovery, spec.earlier_claims
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
        recovery=Confirmation(said.id, said.uuid, said.epoch, said.end_offset) if said else None,
    )


def _seen(earlier: MetadataQuorumStatus) -> Seen:
    if earlier.newest_epoch is None:
        return Seen()
    return Seen(earlier.cluster_id, earlier.newest_epoch, earlier.recovered_epoch or 0)


def suspicions(earlier: MetadataQuorumStatus) -> dict[tuple[int, int], Suspicion]:
    """Member id and incarnation → what shows, and since when."""
    return {
        (each.id, each.incarnation): Suspicion(told.reason, told.subject, seconds_of(told.since))
        for each in earlier.members
        if (told := each.suspected) is not None and each.incarnation is not None
    }


def unreachable_since(earlier: MetadataQuorumStatus) -> dict[tuple[int, int], float]:
    """Member id and incarnation → since when nobody reaches it."""
    return {
        (each.id, each.incarnation): seconds_of(each.unreachable_since)
        for each in earlier.members
        if each.unreachable_since is not None and each.incarnation is not None
    }


def _unconfirmed_since(earlier: MetadataQuorumStatus) -> float | None:
    for condition in earlier.conditions:
        if condition.type == CONFIRMED and condition.status == "False":
            return seconds_of(condition.last_transition_time)
    return None


def _earlier(resource: Object) -> MetadataQuorumStatus:
    """The last status, without what somebody else wrote there and nobody can read."""
    document = dict(resource.get("status") or {})
    while True:
        try:
            return MetadataQuorumStatus.model_validate(document)
        except ValidationError as error:
            wrong = {str(each["loc"][0]) for each in error.errors() if each["loc"]} & set(document)
            if not wrong:
                return MetadataQuorumStatus()
            for key in wrong:
                del document[key]


def _problems(error: ValidationError) -> str:
    """What is wrong with a spec, in one line."""
    return "; ".join(
        f"spec.{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()[:4]
    )
