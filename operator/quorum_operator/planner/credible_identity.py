"""Which identity ConfigMaps count, and what their StatefulSets prove about them. Pure.

Any client with the right to write ConfigMaps can create, replace or annotate one with an identity's name. StatefulSets
are harder to forge: their claim templates are immutable, and a later formation begins only if the earlier one never formed.

* The identity of a formation without members does not count beside one that has formed.
* An identity whose cluster id differs from that of its members is damaged, like one without data.
* The recorded TLS stage counts only if it is consistent with the stages of the members.
* Certificates, a NetworkPolicy and defaults that all members were created with always count.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from quorum_operator.planner.formation_defaults import Defaults
from quorum_operator.planner.gates import voter_keys
from quorum_operator.planner.observed import Identity, Incarnation, QuorumView
from quorum_operator.planner.tls_stage import TlsStage, stage_left


@dataclass(frozen=True, slots=True)
class FormationEvidence:
    """What a StatefulSet proves about its formation; most of it is in its claim template, which is immutable."""

    formation: int
    cluster_id: str | None
    """None: it was created by a version that did not record it."""
    stage: TlsStage
    """TLS stage of its next process."""
    migrated: bool = False
    """Whether its process has TLS properties as arguments: the quorum was formed in clear text."""
    closed: bool = False
    """Whether it was created with certificates."""
    policed: bool = False
    """Whether the quorum was formed with a NetworkPolicy."""
    defaults: Defaults = frozenset()
    """Defaults of the quorum's formation."""
    runs: bool = True
    """Whether it should run. A stopped member keeps its last template."""
    may_found: bool = False
    """Whether its next process may form a quorum. The permission is withdrawn once it has formed."""


def credible_identities(
    identities: Sequence[Identity], evidence: Sequence[FormationEvidence]
) -> tuple[tuple[Identity, ...], frozenset[int]]:
    """The identities that count, corrected by what is proven, and the indexes of those that belong to no formation."""
    held = {each.formation for each in evidence}
    forming = {each.formation for each in evidence if each.may_found}
    formed = max(
        (e.index for e in identities if e.index in held and (e.formed or e.index not in forming)),
        default=None,
    )
    beside = [e.index for e in identities if formed is not None and e.index > formed]
    unknown = frozenset(beside) - held
    found = []
    for each in identities:
        members = [one for one in evidence if one.formation == each.index]
        if each.index not in unknown and not _is_damaged(each, members):
            found.append(_as_proven(each, [one for one in members if one.runs]))
    return tuple(found), unknown


def current_formation(
    incarnations: Sequence[Incarnation], view: QuorumView | None = None
) -> int | None:
    """The formation that has formed according to a confirmed leader, else according to its members; None if unknown."""
    voters = voter_keys(view) if view is not None and view.formed else frozenset()
    found = {each.formation for each in incarnations if each.key in voters}
    if not found:
        found = {
            each.formation
            for each in incarnations
            if each.report is not None
            and each.report.formed
            and each.report.cluster_id == each.cluster_id
        }
    return found.pop() if len(found) == 1 else None


def _is_damaged(identity: Identity, members: Sequence[FormationEvidence]) -> bool:
    proven = {each.cluster_id for each in members}
    return len(proven) == 1 and not proven & {None, identity.cluster_id}


def _as_proven(identity: Identity, members: Sequence[FormationEvidence]) -> Identity:
    if not members:
        return identity
    stages = {each.stage for each in members}
    closed = stages == {TlsStage.CLOSED} or all(each.closed for each in members)
    if closed:
        stage = TlsStage.CLOSED
    elif _may_record(identity.tls_stage, stages):
        stage = identity.migration
    else:
        stage = stage_left(stages)
    formed_closed = closed and not any(each.migrated for each in members)
    mixed = TlsStage.CLOSED in stages
    policed = all(each.policed for each in members)
    return replace(
        identity,
        tls=formed_closed or (identity.tls and mixed),
        migration=stage,
        network_policy=identity.network_policy or policed,
        defaults=identity.defaults | frozenset.intersection(*(each.defaults for each in members)),
    )


def _may_record(stage: TlsStage, members: set[TlsStage]) -> bool:
    """Whether `stage` may be recorded while members are at the stages `members`; see `tls_migration`."""
    allowed = {
        TlsStage.PLAIN: {TlsStage.PLAIN, TlsStage.ACCEPTING},
        TlsStage.ACCEPTING: {TlsStage.PLAIN, TlsStage.ACCEPTING, TlsStage.DIALLING},
        TlsStage.DIALLING: {TlsStage.ACCEPTING, TlsStage.DIALLING},
        TlsStage.CLOSED: {TlsStage.DIALLING, TlsStage.CLOSED},
    }
    return members <= allowed[stage]
