"""One reconcile of a PartitionReassignment: observe → plan → execute exactly one step → write the status.

Owns this order. Stores nothing: a restarted or second operator continues from the state of the partitions. A change
contains the replicas that it was based on, and the controller refuses it if they differ.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog
from pydantic import ValidationError

from quorum_operator.admin_call import Answer
from quorum_operator.crd import PLURAL
from quorum_operator.desired.names import Owner
from quorum_operator.kube import paths
from quorum_operator.kube.client import KubeApi
from quorum_operator.kube.errors import ApiError, Conflict, NotFound
from quorum_operator.kube.events import post_event
from quorum_operator.kube.pods import pod_addresses
from quorum_operator.kube.token import read_token
from quorum_operator.metrics import Metrics
from quorum_operator.namespaced_name import NamespacedName
from quorum_operator.partition_client import PartitionClient
from quorum_operator.planner.reassignment import (
    Await,
    Finished,
    Step,
    Target,
    Wanted,
    plan,
    tally,
)
from quorum_operator.planner.reassignment_status import (
    PROGRESSING,
    Held,
    Outcome,
    Planned,
    build_status,
)
from quorum_operator.reassignment_crd import (
    REASSIGNMENT_KIND,
    REASSIGNMENT_PLURAL,
    PartitionReassignmentSpec,
    PartitionReassignmentStatus,
    ReassignmentPhase,
)
from quorum_operator.reconcile import Next
from quorum_operator.refused import by_api, is_outage
from quorum_operator.remembered import PodAccess
from quorum_operator.resource_facts import problems_of, readable
from quorum_operator.turns import Turns, has_ended

Object = dict[str, Any]

FOLLOW_PERIOD_S = 1.0
"""Interval of reads while partitions move."""
RETRY_REFUSED_S = 5.0
WAITING_FOR_TURN = "WaitingForTurn"
TURN_PERIOD_S = 60.0
"""Interval of checks while another resource runs; normally its end wakes the next one."""
NOT_READY = "QuorumNotReady"
_PERIODS_S = {WAITING_FOR_TURN: TURN_PERIOD_S, NOT_READY: RETRY_REFUSED_S}
"""Retry intervals by reason; the resync period for all others."""

_log = structlog.get_logger("quorum_operator")


@dataclass(frozen=True, slots=True)
class _Quorum:
    """Addresses, token and client for calls to a quorum."""

    addresses: list[str]
    token: str
    partitions: PartitionClient


class ReassignmentReconciler:
    """Reconciles all PartitionReassignments. `clock`: seconds since 1970, of the API server if known."""

    def __init__(
        self,
        api: KubeApi,
        partitions: PartitionClient,
        metrics: Metrics,
        turns: Turns,
        clock: Callable[[], float] = time.time,
        access_to: Callable[[Owner], PodAccess | None] = lambda owner: PodAccess(),
    ) -> None:
        """`access_to`: how the pods of a quorum are reached; None until the quorum has been observed."""
        self._api, self._partitions, self._metrics = api, partitions, metrics
        self._turns, self._clock, self._access_to = turns, clock, access_to

    async def reconcile(self, namespace: str, name: str) -> Next:
        """Run one reconcile. Raises ApiError if the API server can't be used."""
        path = paths.namespaced(REASSIGNMENT_PLURAL, namespace, name)
        resource = await self._api.get(path)
        if resource is None or has_ended(resource) or "deletionTimestamp" in resource["metadata"]:
            # The watch may miss the deletion, and reports it later than this read.
            self._turns.forget(NamespacedName(namespace, name))
            return Next(finished=True)
        try:
            spec = PartitionReassignmentSpec.model_validate(resource.get("spec") or {})
            earlier = readable(PartitionReassignmentStatus, resource.get("status"))
            outcome = await self._advance(NamespacedName(namespace, name), spec, earlier.moving > 0)
        except ValidationError as error:
            _log.error("resource does not validate", reassignment=name, error=str(error))
            self._turns.skip_invalid(NamespacedName(namespace, name), resource)
            text = f"{problems_of(error)}. Create a new resource with a correct spec. Later ones do not wait for this one"
            outcome = Held("SpecInvalid", text)
        except ApiError as error:
            if not is_outage(error):
                refused = by_api("reading", error)
                held = Held(
                    refused.reason, f"{refused.subject}: {refused.message}", unreachable=True
                )
                await self._report_outcome(path, resource, held)
            raise
        except Exception as error:
            # A bug or an unexpected object: reported on the resource, and not only in the log.
            text = f"{type(error).__name__}: {error}; see the operator's log. It is retried"
            held = Held("InternalError", text, unreachable=True)
            await self._report_outcome(path, resource, held)
            raise
        await self._report_outcome(path, resource, outcome)
        return _next(outcome)

    async def _report_outcome(self, path: str, resource: Object, outcome: Outcome) -> None:
        """Write the status for an outcome."""
        earlier = readable(PartitionReassignmentStatus, resource.get("status"))
        status = build_status(
            outcome,
            earlier,
            total=len((resource.get("spec") or {}).get("partitions") or ()),
            generation=resource["metadata"]["generation"],
            now=self._clock(),
        )
        await self._write_status(path, resource, status, earlier)

    async def _advance(
        self, resource_name: NamespacedName, spec: PartitionReassignmentSpec, has_moved: bool
    ) -> Outcome:
        """`has_moved`: partitions of it were moving at the last reconcile."""
        ahead = self._turns.ahead_of(resource_name, spec.quorum)
        text = f"{ahead} reassigns partitions of {spec.quorum} first"
        waits = ahead is not None and not spec.cancel and not spec.paused
        if waits and not has_moved:
            return Held(WAITING_FOR_TURN, text)
        quorum = await self._quorum(resource_name.namespace, spec.quorum)
        if isinstance(quorum, Held):
            return quorum
        wanted = _wanted(spec)
        cluster = await quorum.partitions.describe(quorum.addresses, quorum.token, wanted.targets)
        if isinstance(cluster, Answer):
            return Held(_word(cluster), f"{spec.quorum}: {cluster.message}", unreachable=True)
        found = tally(wanted, cluster)
        step = plan(wanted, cluster, found)
        if waits and not isinstance(step, Finished):
            # An older one was resumed. Moves of this one that are under way continue, and are followed to their end.
            step = Await(f"{len(found.moving)} moves in progress continue; {text}")
        refusal = await self._execute(resource_name, quorum, step)
        return Planned(found, step, spec.paused and not spec.cancel, refusal)

    async def _quorum(self, namespace: str, name: str) -> _Quorum | Held:
        """The data for calls to the quorum, or why it can't be called."""
        resource = await self._api.get(paths.namespaced(PLURAL, namespace, name))
        if resource is None:
            text = f"there is no MetadataQuorum {name} in {namespace}: correct spec.quorum in a new resource"
            return Held("QuorumNotFound", text)
        owner = Owner(name, namespace, resource["metadata"]["uid"])
        token = await read_token(self._api, owner)
        if token is None:
            text = f"{name} has no admin token yet (Secret {owner.token_secret})"
            return Held(NOT_READY, text, unreachable=True)
        access = self._access_to(owner)
        if access is None:
            # The call contains the admin token, which must not be sent in clear text to members that accept only TLS.
            text = f"{name} has not been observed yet: it is unknown whether its members accept only TLS. See its conditions"
            return Held(NOT_READY, text, unreachable=True)
        partitions = (
            self._partitions
            if access.pod_client is None
            else self._partitions.through(access.pod_client)
        )
        return _Quorum(await pod_addresses(self._api, owner), token, partitions)

    async def _execute(self, resource_name: NamespacedName, quorum: _Quorum, step: Step) -> str:
        """Execute the step once. Returns why it failed; empty on success."""
        if isinstance(step, Await | Finished):
            return ""
        answer = await quorum.partitions.change(quorum.addresses, quorum.token, step)
        name = type(step).__name__
        refusal = "" if answer.done else f"{answer.code}: {answer.message}"
        self._metrics.count_step(name, answer.done)
        _log.info(
            "step",
            reassignment=resource_name.name,
            namespace=resource_name.namespace,
            step=name,
            reason=step.reason,
            changed=answer.done,
            outcome=refusal or None,
        )
        return refusal

    async def _write_status(
        self,
        path: str,
        resource: Object,
        status: PartitionReassignmentStatus,
        earlier: PartitionReassignmentStatus,
    ) -> None:
        if status == earlier:
            return
        # A merge patch keeps fields that it does not name, and replaces lists as a whole.
        body = status.model_dump(mode="json", by_alias=True, exclude_none=True)
        version = resource["metadata"]["resourceVersion"]
        try:
            await self._api.merge(
                f"{path}/status", {"metadata": {"resourceVersion": version}, "status": body}
            )
        except (Conflict, NotFound):
            return  # The resource has changed: the next reconcile writes the status.
        if status.phase is not earlier.phase:
            await self._post_phase(resource, status)

    async def _post_phase(self, resource: Object, status: PartitionReassignmentStatus) -> None:
        """Post an event for the new phase."""
        meta = resource["metadata"]
        message = next(each.message for each in status.conditions if each.type == PROGRESSING)
        failed = status.phase is ReassignmentPhase.FAILED
        try:
            await post_event(
                self._api,
                Owner(meta["name"], meta["namespace"], meta["uid"]),
                kind="Warning" if failed else "Normal",
                reason=status.phase.value,
                message=message,
                at=self._clock(),
                resource=REASSIGNMENT_KIND,
            )
        except ApiError as error:
            _log.warning("event not posted", reassignment=meta["name"], error=str(error))


def _wanted(spec: PartitionReassignmentSpec) -> Wanted:
    return Wanted(
        targets=tuple(
            Target(each.topic, each.partition, tuple(each.replicas)) for each in spec.partitions
        ),
        max_moving=spec.max_moving_partitions,
        paused=spec.paused,
        cancel=spec.cancel,
    )


def _word(answer: Answer) -> str:
    """Convert an error code to the form of a reason: NOT_LEADER to NotLeader."""
    if not answer.code.replace("_", "").isalpha():
        return "QuorumFailed"
    return "".join(part.capitalize() for part in answer.code.split("_"))


def _next(outcome: Outcome) -> Next:
    if isinstance(outcome, Held):
        return Next(_PERIODS_S.get(outcome.reason))
    if isinstance(outcome.step, Finished):
        return Next(0.0)  # The worker exits once it reads the final status.
    if outcome.paused and not outcome.found.moving:
        return Next()  # Nothing to do until the spec changes, which triggers a reconcile.
    return Next(RETRY_REFUSED_S if outcome.refusal else FOLLOW_PERIOD_S)
