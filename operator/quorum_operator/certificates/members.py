"""Converts the observation of a quorum to the members that hold certificates. Pure."""

from collections.abc import Iterable

from quorum_node.security.certificate_identity import Role
from quorum_operator.certificates import holders
from quorum_operator.certificates.facts import Loaded, MemberSeen
from quorum_operator.certificates.holders import Holder
from quorum_operator.certificates.named import unusable_name
from quorum_operator.certificates.pem import Read
from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.desired import backup
from quorum_operator.desired.names import Owner
from quorum_operator.planner.certificates_seen import LoadedCertificates
from quorum_operator.planner.observed import Incarnation, PodFacts, QuorumView
from quorum_operator.planner.tls_stage import TlsStage

_ENDED = frozenset({"Succeeded", "Failed"})


def members_of(owner: Owner, incarnations: Iterable[Incarnation]) -> tuple[Holder, ...]:
    """Members that run or should run. Removed and stopped members need no certificate."""
    return tuple(
        holders.member(owner, each.node_id, each.number)
        for each in incarnations
        if each.replicas > 0 or each.pod is not None
    )


def others_of(spec: MetadataQuorumSpec) -> tuple[Holder, ...]:
    """The other holders: an administrator, the identities of the spec, an archiver for backups, and the operator if
    it can't sign for itself.
    """
    named = (spec.tls.identities if spec.tls is not None else None) or []
    archiver = (holders.person(backup.HOLDER, Role.ARCHIVER),) if spec.backup is not None else ()
    issued = spec.tls is not None and spec.tls.issuer_ref is not None
    return (
        holders.person("admin"),
        *((holders.operator(),) if issued else ()),
        *archiver,
        *(
            holders.named(each.name, each.role.value, each.node_id, tuple(each.dns_names or ()))
            for each in named
            if unusable_name(each) is None
        ),
    )


def members_seen(
    owner: Owner,
    incarnations: Iterable[Incarnation],
    view: QuorumView | None,
    known: tuple[Read, ...],
) -> tuple[MemberSeen, ...]:
    """The members with what they report. `known`: certificates that resolve the reported fingerprints."""
    there = [each for each in incarnations if each.replicas > 0 or each.pod is not None]
    by_name = {each.fingerprint: each for each in known}
    down = {} if view is None else {each.key: not each.fetching for each in view.voters}
    return tuple(
        MemberSeen(
            holder=holders.member(owner, each.node_id, each.number),
            running=_may_be_alive(each.pod),
            stopped=each.pod is not None and not each.pod.running,
            loaded=_loaded(each, by_name),
            leader=view is not None and each.key == view.leader,
            voter_down=each.key is not None and down.get(each.key, False),
        )
        for each in there
    )


def _may_be_alive(pod: PodFacts | None) -> bool:
    """Whether a process with a certificate may be running. A container that never started reads its Secret when it
    starts, and a process without TLS has no certificate.
    """
    if pod is None or pod.tls_stage is TlsStage.PLAIN:
        return False
    return pod.phase not in _ENDED and (pod.running or pod.started)


def _loaded(each: Incarnation, known: dict[str, Read]) -> Loaded | None:
    loaded: LoadedCertificates | None = (
        each.report.certificates if each.report is not None else None
    )
    if loaded is None:
        return None
    bundle = tuple(known[name] for name in sorted(loaded.bundle) if name in known)
    return Loaded(loaded.certificate, loaded.authority, bundle)
