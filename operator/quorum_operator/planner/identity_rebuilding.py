"""Recreates a deleted or damaged identity ConfigMap, or reports what is missing for that.

Owns the required evidence. A confirmed describe contains the cluster id. Otherwise all StatefulSets have to start
their processes with the same one, and the log of a voter has to belong to that cluster; while no process runs,
the claims of the members and the status have to name it. If the StatefulSets are deleted too, the status and the
claims of this resource are used. All other sources of the cluster id must agree.

A recreated identity permits no member to format a directory, unless the formation is verifiably incomplete and the
founder's StatefulSet still has that permission. Two operators with the same facts create the same object.
"""

from dataclasses import dataclass
from functools import cached_property

from quorum_operator.planner.formation_defaults import Defaults
from quorum_operator.planner.observed import ClaimFacts, Founding, Key, NodeReport
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.step import RebuildIdentity, Step, Wait
from quorum_operator.planner.tls_stage import TlsStage, stage_left

RETRY_S = 5.0
_MISSING = "the identity ConfigMap is missing or damaged"


def plan_missing_identity(at: Situation) -> Step:
    """The step if the identity is missing but other objects of the quorum exist."""
    left = IdentityLeft(at)
    problem = left.problem
    if problem is not None:
        return Wait(f"{_MISSING}: {problem}", "the identity", RETRY_S)
    cluster_id, founding = left.cluster_id, left.founding
    assert cluster_id is not None
    return RebuildIdentity(
        index=at.index,
        cluster_id=cluster_id,
        founding=founding,
        formed=founding is None or not left.is_forming,
        reason=f"{_MISSING}: {left.proof}",
        network_policy=left.network_policy,
        defaults=left.defaults,
        tls=left.tls,
        migration=left.migration,
    )


@dataclass(frozen=True)
class IdentityLeft:
    """The remaining facts of a deleted identity."""

    at: Situation

    @cached_property
    def cluster_ids(self) -> dict[str, str]:
        """Cluster ids by their sources. If all StatefulSets and the processes agree, others do not count: anybody may have
        edited the status or the annotations of claims.
        """
        at, answers = self.at, self._answers
        found: dict[str, str | None] = {**self._sets, **answers}
        if not answers or len(set(found.values())) > 1:
            found |= {each.claim.name: each.claim.marks.cluster_id for each in at.own_claims}
            found |= {"the status": at.seen.known_cluster_id}
        return {name: cluster_id for name, cluster_id in found.items() if cluster_id is not None}

    @cached_property
    def _sets(self) -> dict[str, str | None]:
        return {each.name: each.cluster_id for each in self.at.current}

    @cached_property
    def _answers(self) -> dict[str, str]:
        at, view = self.at, self.at.seen.view
        answers = {f"the process of {e.name}": e.report.cluster_id for e in at.current if e.report}
        answers |= {"the confirmed leader": view.cluster_id if view is not None else None}
        return {name: found for name, found in answers.items() if found is not None}

    @cached_property
    def cluster_id(self) -> str | None:
        """The cluster id that all sources agree on, else the one that the spec confirms."""
        ids, confirmed = set(self.cluster_ids.values()), self.at.seen.wanted.adopt
        if len(ids) == 1:
            return ids.pop()
        return confirmed if confirmed in self._to_confirm else None

    @cached_property
    def _to_confirm(self) -> set[str | None]:
        """The ids of which the user may confirm one: the one of all StatefulSets and processes, which is no matter of
        opinion; without any those of the claims.
        """
        ids = {*self._sets.values(), *self._answers.values()}
        if not ids:
            ids = {each.claim.marks.cluster_id for each in self.at.own_claims}
        elif len(ids) > 1:
            return set()
        return ids - {None}

    @cached_property
    def founding(self) -> Founding | None:
        """The permission to form in the founder's StatefulSet."""
        found = {each.founding for each in self.at.current if each.founding is not None}
        return found.pop() if len(found) == 1 else None

    @cached_property
    def _claims(self) -> list[ClaimFacts]:
        claims = [each.claim for each in self.at.current if each.claim is not None]
        claims += [each.claim for each in self.at.seen.lone_claims]
        ids = (self.cluster_id, None)
        return [each for each in claims if each.marks.cluster_id in ids]

    @cached_property
    def network_policy(self) -> bool:
        """Whether it was formed with a NetworkPolicy, according to any claim of its cluster."""
        return any(each.network_policy for each in self._claims)

    @cached_property
    def defaults(self) -> Defaults:
        """Defaults of its formation, according to any claim of its cluster."""
        return frozenset().union(*(each.defaults for each in self._claims))

    @cached_property
    def tls(self) -> bool:
        """Whether it was formed with certificates, according to any StatefulSet of its cluster. Claims count if none should
        run.
        """
        if any(e.tls_stage is TlsStage.CLOSED for e in self.at.current):
            return True
        run = any(e.replicas > 0 for e in self.at.current)
        return not run and any(each.marks.tls for each in self._claims)

    @cached_property
    def migration(self) -> TlsStage:
        """The stage of its TLS migration, according to its StatefulSets and pods."""
        stages = [e.tls_stage for e in self.at.current]
        stages += [e.pod.tls_stage for e in self.at.current if e.pod is not None]
        return TlsStage.PLAIN if self.tls else stage_left(stages)

    @cached_property
    def _reports(self) -> list[NodeReport]:
        return [each.report for each in self.at.current if each.report is not None]

    @cached_property
    def _has_voters_log(self) -> bool:
        """Whether an answering replica is a voter in its own log."""
        held = [
            (Key(each.node_id, each.report.uuid), each.report.log)
            for each in self.at.current
            if each.report is not None
        ]
        return any(log is not None and key in log.voters for key, log in held)

    @cached_property
    def is_forming(self) -> bool:
        """Whether the formation is incomplete and can't be completed at this moment."""
        view, founding = self.at.seen.view, self.founding
        if founding is None or any(report.formed for report in self._reports):
            return False
        logs = [len(report.log.voters) for report in self._reports if report.log is not None]
        most = max([*logs, self.at.known_voters, len(view.voters) if view is not None else 0])
        return most + 1 < founding.initial_voters and not (view is not None and view.formed)

    @cached_property
    def _is_untouched(self) -> bool:
        """Whether no member has been a voter yet, and the founder's own StatefulSet exists."""
        voters = any(report.log is not None and report.log.voters for report in self._reports)
        return self.is_forming and not voters and self.at.known_voters == 0

    @cached_property
    def _is_confirmed_by_claims(self) -> bool:
        """Whether the status and a claim of this resource have the same cluster id, and replicas of it exist."""
        marks = [each.claim.marks for each in self.at.own_claims]
        named = any(one.uuid and one.cluster_id == self.cluster_id for one in marks)
        return named and self.cluster_id is not None and self.at.seen.known_cluster_id is not None

    @cached_property
    def _is_dormant(self) -> bool:
        """Whether no process runs that could answer, and the members' claims and the status have the cluster id of all
        StatefulSets. Without an identity no template can be corrected, so none might ever run again.
        """
        at = self.at
        if any(each.pod is not None and each.pod.running for each in at.current):
            return False
        marks = [each.claim.marks for each in at.current if each.claim is not None]
        mine = [one for one in marks if one.uuid and one.resource_uid == at.seen.resource_uid]
        recorded = {one.cluster_id for one in mine} | {at.seen.known_cluster_id}
        return bool(mine) and recorded == {self.cluster_id} and at.known_voters > 0

    @cached_property
    def proof(self) -> str:
        """The source of the cluster id."""
        if self.at.seen.view is not None:
            return f"a majority confirms the cluster id {self.cluster_id}"
        who = "all StatefulSets" if self.at.current else "its claims and the status"
        return f"{who} agree on the cluster id {self.cluster_id}"

    @cached_property
    def problem(self) -> str | None:
        """What is missing, and what to do; None if the identity can be recreated."""
        at = self.at
        if self.cluster_id is None and len(set(self.cluster_ids.values())) > 1:
            named = ", ".join(
                f"{name}: {found}" for name, found in sorted(self.cluster_ids.items())
            )
            confirm = (
                ", or confirm the right one: set spec.earlierClaims to {policy: Adopt, clusterId: …}"
                if self._to_confirm
                else ""
            )
            return (
                f"conflicting cluster ids were found ({named}). Remove the objects that do not belong to this quorum, or "
                f"correct what was edited{confirm}"
            )
        if at.seen.wanted.adopt is not None and self.cluster_id == at.seen.wanted.adopt:
            return None
        if self.cluster_id is not None and at.seen.view is not None and at.seen.view.cluster_id:
            return None
        if not at.current and self._is_confirmed_by_claims:
            return None
        if not at.current:
            return (
                "no StatefulSet with the cluster id exists. Confirm the claims to adopt in spec.earlierClaims, or "
                "delete the resource and apply it again"
            )
        silent = [each.name for each in at.current if each.cluster_id is None]
        if silent:
            return f"the StatefulSet of {', '.join(silent)} names no cluster id, so the id is not certain: restore the ConfigMap from a copy"
        if self._has_voters_log or self._is_untouched or self._is_dormant:
            return None
        return (
            f"the StatefulSets agree on the cluster id {self.cluster_id}, but no voter with that id in its log "
            "answers: bring one back"
        )
