"""One reconcile: observe → plan → execute exactly one step → write the status.

Owns this order and the data passed between the parts. No step depends on memory, so a restarted or second operator
continues from the current objects. A refused step is delayed, and the plan continues without it. The status is always
written.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import structlog
from pydantic import ValidationError

from quorum_operator.attempts import DONE_MOST_S, RESTARTED_MOST_S, Refused
from quorum_operator.backup_keeper import BackupKeeper, has_backups
from quorum_operator.certificate_keeper import CertificateKeeper, close
from quorum_operator.crd import PLURAL, MetadataQuorumSpec
from quorum_operator.desired import revision, tls
from quorum_operator.desired.names import Owner, annotated_requests
from quorum_operator.execute import Executor
from quorum_operator.kube import facts, paths
from quorum_operator.kube.client import KubeApi
from quorum_operator.kube.errors import ApiError
from quorum_operator.kube.finding import WideReads
from quorum_operator.kube.host_capacities import read_host_capacities
from quorum_operator.kube.observe import Cluster, observe, with_report
from quorum_operator.mark_keeper import MarkKeeper
from quorum_operator.metrics import Metrics
from quorum_operator.namespaced_name import NamespacedName
from quorum_operator.outcome import Outcome
from quorum_operator.page_document import Move
from quorum_operator.planner.edited_epochs import corrected
from quorum_operator.planner.observed import (
    Incarnation,
    Observation,
)
from quorum_operator.planner.placement import planned
from quorum_operator.planner.plan import plan
from quorum_operator.planner.refusals import next_attempt, subjects_of, value_of
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.status import build_status
from quorum_operator.planner.step import (
    GuardDrains,
    RecordTlsStage,
    RecordUpdate,
    RestartMember,
    Step,
    UpdateMember,
    Wait,
    changes_something,
)
from quorum_operator.planner.times import text_of
from quorum_operator.planner.tls_stage import TlsStage
from quorum_operator.query_order import addresses_to_query
from quorum_operator.quorum_client import Described, QuorumClient, Seen, describe_newest
from quorum_operator.refused import by_api, passing
from quorum_operator.remembered import Memory, PodAccess, Remembered, with_memory
from quorum_operator.report import Reporter, blocked, invalid, same
from quorum_operator.resource_facts import (
    earlier_status,
    newest_seen,
    problems_of,
    spec_problem,
    unconfirmed_since,
    unmakeable,
    update_wanted,
    wanted_by,
)
from quorum_operator.status_crd import MetadataQuorumStatus
from quorum_operator.token_checks import TokenChecks
from quorum_operator.unread import report_unread

Object = dict[str, Any]

MOST_REFUSED_STEPS = 16
"""Maximum number of refused steps in one reconcile."""

_log = structlog.get_logger("quorum_operator")


@dataclass(frozen=True, slots=True)
class Next:
    """When to reconcile again: seconds, or None for the resync period. `finished`: never, because the resource is deleted
    or complete.
    """

    after_s: float | None = None
    finished: bool = False


class Reconciler:
    """Reconciles all MetadataQuorums. `clock`: seconds since 1970, of the API server if known. `home`: the namespace
    of the operator's own pods.
    """

    def __init__(
        self,
        api: KubeApi,
        nodes: QuorumClient,
        metrics: Metrics,
        kept: WideReads | None = None,
        clock: Callable[[], float] = time.time,
        home: str = "",
        certificates: CertificateKeeper | None = None,
        *,
        writes_alone: bool = False,
    ) -> None:
        """`kept`: the cache. `writes_alone`: this operator holds a lease, so that no other one writes statuses."""
        self._writes_alone = writes_alone
        self._api, self._nodes, self._metrics = api, nodes, metrics
        self._home = home
        self._clock = clock
        self._kept = kept
        self._memory = Memory()
        self._certificates = certificates or CertificateKeeper(api, clock)
        self._marks = MarkKeeper(api)
        self._backups = BackupKeeper(api)
        self._tokens = TokenChecks()
        self._reporter = Reporter(api, metrics, clock)

    async def reconcile(self, namespace: str, name: str) -> Next:
        """Run one reconcile. Raises ApiError if the API server is unavailable or denies reads."""
        known = self._memory.known(namespace, name)
        checked = known.checked if known is not None else None
        due = await self._reconcile_cached(namespace, name)
        if due is not None:
            return due
        if known is not None and checked is not None:
            known.checked = checked  # The live read has to check the same objects.
        return await self._reconcile_live(namespace, name)

    async def _reconcile_cached(self, namespace: str, name: str) -> Next | None:
        """Observe only the cache. None if anything has to be done or reported, which needs reads from the API server."""
        known = self._memory.known(namespace, name)
        now = time.monotonic()
        if self._kept is None or known is None or known.must_read_live:
            return None
        try:
            resource = await self._kept.get(paths.namespaced(PLURAL, namespace, name))
            if resource is None or resource["metadata"]["uid"] != known.uid:
                return None
            if known.certificates_are_due(now, annotated_requests(resource["metadata"])):
                return None
            owner = Owner(name, namespace, known.uid, self._home)
            earlier = earlier_status(resource)
            spec = MetadataQuorumSpec.model_validate(resource.get("spec", {}))
            generation = resource["metadata"]["generation"]
            if has_backups(spec, earlier) and known.backups_are_due(generation, now):
                return None
            seen = await self._observe(owner, spec, resource, earlier, self._kept)
            refusals = known.attempts.refusals(seen.generation, seen.now)
            seen = replace(seen, refusals=refusals)
            step = plan(seen)
            status = build_status(seen, step, earlier, owner.selector)
        except Exception as error:
            _log.debug(
                "reading from the API server instead",
                quorum=name,
                error=str(error) or type(error).__name__,
            )
            return None  # The live read fails with the same error and reports it.
        if changes_something(step) or self._marks.due(seen) or not same(status, earlier):
            return None
        if not known.is_moving(now):  # Otherwise the cached objects may be older than a refusal.
            known.attempts.settled(seen.generation, seen.now)
        self._metrics.set_status(namespace, name, status)
        return _wait(known, step)

    async def _reconcile_live(self, namespace: str, name: str) -> Next:
        path = paths.namespaced(PLURAL, namespace, name)
        resource = await self._api.get(path)
        if resource is None:
            known = self._memory.known(namespace, name)
            self._memory.forget(namespace, name)
            await close(known.opened if known is not None else None)
            return Next(finished=True)
        owner = Owner(name, namespace, resource["metadata"]["uid"], self._home)
        self._memory.of(owner).must_read_live = False
        try:
            spec = MetadataQuorumSpec.model_validate(resource.get("spec", {}))
        except ValidationError as error:
            _log.error("resource does not validate", quorum=name, error=str(error))
            await self._reporter.hold(path, resource, invalid(problems_of(error)))
            return Next()
        earlier = earlier_status(resource)
        try:
            seen = await self._observe(owner, spec, resource, earlier, self._api)
            await self._marks.write(owner, seen)
            seen, again_s = await self._keep_certificates(owner, seen, resource["metadata"])
            seen = await self._keep_backups(owner, spec, seen, earlier)
            seen, step, due = await self._advance(owner, spec, seen)
            due = _sooner(due, again_s)
            status = build_status(seen, step, earlier, owner.selector)
            self._memory.of(owner).outages = 0
        except ApiError as error:
            await report_unread(self._reporter, self._memory.of(owner), path, resource, error)
            raise
        except Exception as error:
            # A bug or an unexpected object: reported on the resource, and not only in the log.
            text = (
                f"{type(error).__name__}: {error}; see the operator's log. The reconcile is retried"
            )
            bug = Refused("this resource", "InternalError", text)
            await self._reporter.hold(path, resource, blocked(bug))
            raise
        await self._reporter.write(path, resource, status, earlier, owner)
        # Without a confirmed describe the status repeats what it said before, which another client may have edited.
        if self._writes_alone and seen.view is not None and status.newest_epoch is not None:
            self._memory.of(owner).confirmed = newest_seen(status)
        return due

    async def _keep_certificates(
        self, owner: Owner, seen: Observation, meta: Object
    ) -> tuple[Observation, float | None]:
        """Manage certificates in addition to the one step, because a waiting quorum needs them too. Returns the
        observation with their state, and the seconds until the next check; None if nothing is pending.
        """
        known = self._memory.of(owner)
        if known.opened is None:
            known.certificates = None
            return seen, None

        async def post_event(kind: str, reason: str, message: str) -> None:
            await self._reporter.post(owner, kind, reason, message)

        notes = meta.get("annotations") or {}
        kept = await self._certificates.keep(
            owner, known.opened, seen, notes, post_event, known.certificate_attempts
        )
        now, again_s = time.monotonic(), kept.again_s
        if kept.seen.waits and again_s > 0.0:
            again_s = known.certificates_wait_s(kept.seen.waits, again_s, now)
        known.certificates = (kept.seen, now + again_s)
        known.requests = annotated_requests(meta)
        return replace(seen, certificates=kept.seen), None if kept.settled else again_s

    async def _keep_backups(
        self,
        owner: Owner,
        spec: MetadataQuorumSpec,
        seen: Observation,
        earlier: MetadataQuorumStatus,
    ) -> Observation:
        """Manage backups in addition to the one step. Returns the observation with their state."""
        known, now = self._memory.of(owner), time.monotonic()
        if not has_backups(spec, earlier):
            known.backups = (None, seen.generation, now)
        elif known.backups_are_due(seen.generation, now):
            newest = max(seen.identities, key=lambda each: each.index, default=None)
            found = await self._backups.keep(
                owner,
                revision.for_member(spec, newest, None),
                earlier.backup,
                seen.now,
                secured=tls.takes_tls_everywhere(spec, seen.identities),
                idle=seen.deleting or seen.wanted.paused,
                defaults=frozenset() if newest is None else newest.defaults,
            )
            known.backups = (found, seen.generation, now)
        return replace(seen, backups=known.backups[0])

    async def _advance(
        self, owner: Owner, spec: MetadataQuorumSpec, seen: Observation
    ) -> tuple[Observation, Step, Next]:
        """Execute one step that changes something; if it is refused, the next one that does not depend on it."""
        known, generation = self._memory.of(owner), seen.generation
        for _ in range(MOST_REFUSED_STEPS):
            refusals = known.attempts.refusals(generation, seen.now)
            seen = replace(seen, refusals=refusals)
            step = plan(seen)
            if not changes_something(step):
                known.attempts.settled(generation, seen.now)
                return seen, step, _wait(known, step)
            try:
                outcome = await self._execute(owner, spec, seen, step)
            except ApiError as error:
                # It may be unavailable for this object only, such as behind a slow webhook: the next reconcile goes on
                # without this step.
                refused = passing(by_api(subjects_of(seen, step)[0], error))
                known.attempts.refused(generation, type(step).__name__, refused, self._clock())
                raise
            if outcome.exists:
                known.searches.widen()
            times = self._note(known, seen, step, outcome)
            await self._reporter.report_step(owner, step, outcome, times)
            if outcome.changed or outcome.outdated:
                break
        known.waits, known.moved_at, known.must_read_live = None, time.monotonic(), True
        now = self._clock()
        seen = replace(seen, refusals=known.attempts.refusals(generation, now))
        first = next_attempt(replace(seen, now=now))
        return seen, step, Next(0.0 if outcome.changed or first is None else first.retry_at - now)

    def _note(self, known: Remembered, seen: Observation, step: Step, outcome: Outcome) -> int:
        """Record the outcome. Returns how often in a row it occurred."""
        name, now, attempts = type(step).__name__, self._clock(), known.attempts
        of = seen.generation, name
        times = [attempts.refused(*of, each, now) for each in outcome.refused]
        if outcome.changed and isinstance(step, UpdateMember):
            known.left[step.target.uid] = outcome.left, now
        if outcome.changed and isinstance(step, GuardDrains):
            known.drain_floor = step.least_ready
        if outcome.changed and isinstance(step, RecordTlsStage | RecordUpdate):
            # Services, policies and the configuration are derived from it.
            known.check_objects_again()
        if outcome.changed:
            refused = {each.subject for each in outcome.refused}
            done = [each for each in subjects_of(seen, step) if each not in refused]
            most_s = RESTARTED_MOST_S if isinstance(step, RestartMember) else DONE_MOST_S
            times += [attempts.done(*of, each, now, value_of(step), most_s) for each in done]
        return min(times, default=1)

    async def _observe(
        self,
        owner: Owner,
        spec: MetadataQuorumSpec,
        resource: Object,
        earlier: MetadataQuorumStatus,
        reads: WideReads,
    ) -> Observation:
        known, meta, live = self._memory.of(owner), resource["metadata"], reads is self._api
        newest, was_edited = known.newest(newest_seen(earlier))
        check = known.objects_are_due(meta["generation"], time.monotonic())
        search = known.searches.begin(earlier, time.monotonic())
        cluster = await observe(
            reads,
            owner,
            spec,
            search,
            check_objects=check,
            copies=self._kept if live else None,
            now=self._clock(),
        )
        if check:
            known.noted(cluster.mounts_created_at, cluster.drain_floor)
            if cluster.identities and not cluster.stale_objects:
                known.checked = (meta["generation"], time.monotonic())
        await self._open(owner, spec, cluster, live=live)
        nodes = self._nodes_of(known)
        incarnations, described = await self._query_nodes(nodes, known, cluster, newest, live=live)
        described = await known.fallback_addresses.describe(
            nodes, reads, owner, cluster, incarnations, described, newest, time.monotonic()
        )
        known.searches.end(cluster, described.view)
        incarnations = await self._tokens.check(nodes, incarnations, cluster.token, self._clock())
        now = self._clock()
        incarnations = with_memory(incarnations, known, earlier, now)
        seen = Observation(
            now=now,
            name=owner.name,
            generation=meta["generation"],
            wanted=wanted_by(spec),
            deleting="deletionTimestamp" in meta,
            held_by=facts.held_by(meta),
            identities=cluster.identities,
            stale_objects=cluster.stale_objects,
            mounts_created_at=known.mounts_created_at,
            drain_floor=known.drain_floor,
            label_drift=cluster.label_drift,
            foreign_objects=cluster.foreign_objects,
            resource_uid=owner.uid,
            incarnations=incarnations,
            lone_claims=cluster.lone_claims,
            stray_pods=cluster.stray_pods,
            used_numbers=cluster.used_numbers,
            templates=cluster.templates,
            view=described.view,
            hinted_voters=described.hinted_voters,
            older_quorum=described.older,
            epochs_edited=was_edited and described.view is not None,
            known_cluster_id=earlier.cluster_id,
            known_voters=earlier.voters,
            invalid=spec_problem(spec, cluster),
            unmakeable=unmakeable(spec, cluster),
            unconfirmed_since=unconfirmed_since(earlier, now),
            certificates=known.certificates[0] if known.certificates is not None else None,
            backups=known.backups[0],
            update=update_wanted(spec, now),
        )
        return await self._with_host_capacities(spec, corrected(seen))

    async def _with_host_capacities(
        self, spec: MetadataQuorumSpec, seen: Observation
    ) -> Observation:
        """Add the usable Nodes if a member has to be created. They may come from the cache, because an outdated one only
        affects when the member is created.
        """
        if not planned(Situation(seen)):
            return seen
        rooms = await read_host_capacities(self._kept or self._api, spec)
        return replace(seen, host_capacities=rooms)

    async def _open(
        self, owner: Owner, spec: MetadataQuorumSpec, cluster: Cluster, *, live: bool
    ) -> None:
        """Open the client for the pods of a quorum with certificates."""
        known = self._memory.of(owner)
        known.secured = cluster.tls_stage is TlsStage.CLOSED
        if cluster.certified and live:
            known.opened = await self._certificates.open(owner, spec, cluster, known.opened)
        elif not cluster.certified:
            await close(known.opened)
            known.opened = None

    def access_to(self, owner: Owner) -> PodAccess | None:
        """How the pods of a quorum are reached; None while that is unknown."""
        return self._memory.access_to(owner)

    def _nodes_of(self, known: Remembered) -> QuorumClient:
        """The client for the pods of a quorum."""
        return self._nodes if known.pod_client is None else self._nodes.through(known.pod_client)

    async def _query_nodes(
        self,
        nodes: QuorumClient,
        known: Remembered,
        cluster: Cluster,
        seen: Seen,
        *,
        live: bool,
    ) -> tuple[tuple[Incarnation, ...], Described]:
        """Query the reports of all pods concurrently, then a describe; unless `live` only the describe while nothing
        changes.
        """
        now = time.monotonic()
        kept = None if live else known.reports.of(cluster.incarnations, now)
        if kept is not None:
            described = await describe_newest(nodes, addresses_to_query(cluster, kept), seen)
            if known.reports.holds(described.view):
                return kept, described

        async def ask(each: Incarnation) -> Incarnation:
            pod = each.pod
            if pod is None or pod.ip is None or not pod.running:
                return each
            return with_report(each, await nodes.report(pod.ip, each.node_id))

        incarnations = tuple(await asyncio.gather(*(ask(each) for each in cluster.incarnations)))
        described = await describe_newest(nodes, addresses_to_query(cluster, incarnations), seen)
        known.reports.keep(incarnations, described.view, now)
        return incarnations, described

    async def _execute(
        self, owner: Owner, spec: MetadataQuorumSpec, seen: Observation, step: Step
    ) -> Outcome:
        if not changes_something(step):
            return Outcome(False)
        name = type(step).__name__
        nodes = self._nodes_of(self._memory.of(owner))
        outcome = await Executor(self._api, nodes, owner, spec, seen).execute(step)
        self._metrics.count_step(name, outcome.changed)
        if outcome.changed:
            move = Move(text_of(self._clock()), name, step.reason)
            self._metrics.moves.note(NamespacedName(owner.namespace, owner.name), move)
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


def _wait(known: Remembered, step: Step) -> Next:
    if not isinstance(step, Wait):
        known.waits = None
        return Next()
    return Next(known.wait_s(step.reason, step.retry_after_s, time.monotonic()))


def _sooner(due: Next, again_s: float | None) -> Next:
    if again_s is None or due.finished or (due.after_s is not None and due.after_s <= again_s):
        return due
    return Next(again_s)
