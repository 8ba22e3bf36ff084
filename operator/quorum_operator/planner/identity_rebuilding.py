"""The identity ConfigMap was deleted: what it said is found again, or people are told what is missing.

Owns when what is left is proof enough. A confirmed describe tells the cluster id; else all StatefulSets have to start their
processes with the same one, and the log of a voter has to be of that cluster. Where the StatefulSets are gone as well, the
status and the claims of this very resource tell it. What else is known of the cluster id (the
status, marks on claims) must agree. An identity that is made again permits nobody to format a directory, unless the
formation has verifiably not come to its end and the founder's own StatefulSet still has that permission.

Two operators that find the same make the same object; whoever is first makes it.
"""

from dataclasses import dataclass
from functools import cached_property

from quorum_operator.planner.observed import ClaimFacts, Founding, Key, NodeReport
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.step import RebuildIdentity, Step, Wait
from quorum_operator.planner.tls_stage import TlsStage, stage_left

RETRY_S = 5.0
_GONE = "the identity ConfigMap is gone"


def plan_missing_identity(at: Situation) -> Step:
    """There is no identity, and something of its quorum is left."""
    left = IdentityLeft(at)
    problem = left.problem
    if problem is not None:
        return Wait(f"{_GONE}: {problem}", "the identity", RETRY_S)
    cluster_id, founding = left.cluster_id, left.founding
    assert cluster_id is not None
    return RebuildIdentity(
        index=at.index,
        cluster_id=cluster_id,
        founding=founding,
        formed=founding is None or not left.is_forming,
        reason=f"{_GONE}: {left.proof}",
        network_policy=left.network_policy,
        tls=left.tls,
        migration=left.migration,
    )


@dataclass(frozen=True)
class IdentityLeft:
    """What is left of an identity that is gone."""

    at: Situation

    @cached_property
    def told(self) -> dict[str, str]:
        """Who names which cluster id."""
        at = self.at
        found = {each.name: each.cluster_id for each in at.current}
        found |= {f"the process of {e.name}": e.report.cluster_id for e in at.current if e.report}
        found |= {each.claim.name: each.claim.marks.cluster_id for each in at.own_claims}
        found |= {"the status": at.seen.known_cluster_id}
        view = at.seen.view
        found |= {"the confirmed leader": view.cluster_id if view is not None else None}
        return {name: cluster_id for name, cluster_id in found.items() if cluster_id is not None}

    @cached_property
    def cluster_id(self) -> str | None:
        """The one that all of them name."""
        ids = set(self.told.values())
        return ids.pop() if len(ids) == 1 else None

    @cached_property
    def founding(self) -> Founding | None:
        """As the founder's StatefulSet still has it."""
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
        """Whether it was formed with one, as any claim of its cluster says."""
        return any(each.network_policy for each in self._claims)

    @cached_property
    def tls(self) -> bool:
        """Whether it was formed with certificates, as any claim of its cluster, or any of its StatefulSets, says."""
        closed = any(e.tls_stage is TlsStage.CLOSED for e in self.at.current)
        return closed or any(each.tls for each in self._claims)

    @cached_property
    def migration(self) -> TlsStage:
        """How far it was on its way to TLS, as its StatefulSets and pods say."""
        stages = [e.tls_stage for e in self.at.current]
        stages += [e.pod.tls_stage for e in self.at.current if e.pod is not None]
        return TlsStage.PLAIN if self.tls else stage_left(stages)

    @cached_property
    def _reports(self) -> list[NodeReport]:
        return [each.report for each in self.at.current if each.report is not None]

    @cached_property
    def _has_voters_log(self) -> bool:
        """Some replica answers that is a voter by its own log."""
        held = [
            (Key(each.node_id, each.report.uuid), each.report.log)
            for each in self.at.current
            if each.report is not None
        ]
        return any(log is not None and key in log.voters for key, log in held)

    @cached_property
    def is_forming(self) -> bool:
        """Not all initial voters have joined, and none can be about to complete them."""
        view, founding = self.at.seen.view, self.founding
        if founding is None or any(report.formed for report in self._reports):
            return False
        logs = [len(report.log.voters) for report in self._reports if report.log is not None]
        most = max([*logs, self.at.known_voters, len(view.voters) if view is not None else 0])
        return most + 1 < founding.initial_voters and not (view is not None and view.formed)

    @cached_property
    def _is_untouched(self) -> bool:
        """Nobody has been a voter yet, and the founder's own StatefulSet is there."""
        voters = any(report.log is not None and report.log.voters for report in self._reports)
        return self.is_forming and not voters and self.at.known_voters == 0

    @cached_property
    def _is_witnessed(self) -> bool:
        """The status and a claim of this very resource name the same cluster id, and replicas of it are left."""
        marks = [each.claim.marks for each in self.at.own_claims]
        named = any(one.uuid and one.cluster_id == self.cluster_id for one in marks)
        return named and self.cluster_id is not None and self.at.seen.known_cluster_id is not None

    @cached_property
    def proof(self) -> str:
        """What the cluster id is taken from."""
        if self.at.seen.view is not None:
            return f"a majority confirms the cluster id {self.cluster_id}"
        who = "all StatefulSets" if self.at.current else "its claims and the status"
        return f"{who} agree on the cluster id {self.cluster_id}"

    @cached_property
    def problem(self) -> str | None:
        """What is missing, and what to do; None when the identity can be made again."""
        at = self.at
        if len(set(self.told.values())) > 1:
            named = ", ".join(f"{name}: {told}" for name, told in sorted(self.told.items()))
            return f"different cluster ids are found ({named}). Remove what does not belong to this quorum"
        if at.seen.wanted.adopt is not None and self.cluster_id == at.seen.wanted.adopt:
            return None
        if self.cluster_id is not None and at.seen.view is not None and at.seen.view.cluster_id:
            return None
        if not at.current and self._is_witnessed:
            return None
        if not at.current:
            return (
                "no StatefulSet of it is left that tells the cluster id. Confirm the claims that are to be run again by"
                " spec.earlierClaims, or delete the resource and apply it again"
            )
        silent = [each.name for each in at.current if each.cluster_id is None]
        if silent:
            return f"{', '.join(silent)} does not tell the cluster id"
        if self._has_voters_log or self._is_untouched:
            return None
        return (
            f"the StatefulSets agree on the cluster id {self.cluster_id}, but no voter answers that has it in its log:"
            " bring one back"
        )
