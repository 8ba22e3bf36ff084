"""Manages the certificates of quorums: read, plan, and execute one write after the other; also provides the TLS
client for the operator.

Runs in addition to the one step of each reconcile. No step depends on memory, so a restarted or second operator
continues from the current objects. The operator's own certificate is kept in memory and signed again after a restart.
"""

import random
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from math import inf

import httpx
import structlog

from quorum_node.security.certificate_identity import Role
from quorum_operator.attempts import Refused
from quorum_operator.certificate_attempts import CertificateAttempts
from quorum_operator.certificates import documents, holders, issuing, rotation, store
from quorum_operator.certificates.account import account
from quorum_operator.certificates.checks import STAYS
from quorum_operator.certificates.facts import Seen
from quorum_operator.certificates.holders import Holder
from quorum_operator.certificates.issued import request_name
from quorum_operator.certificates.members import members_of, members_seen, others_of
from quorum_operator.certificates.named import named
from quorum_operator.certificates.objects import certificate_facts
from quorum_operator.certificates.ownership import restorations
from quorum_operator.certificates.pem import Read, Unreadable
from quorum_operator.certificates.steps import (
    CopyIssuedPair,
    ExtendSignedUntil,
    RequestCertificate,
    Settled,
    Step,
    WaitFor,
    WriteBundle,
    WriteLeaf,
)
from quorum_operator.certificates.store import Found
from quorum_operator.certificates.trials import Trials
from quorum_operator.certificates.unused_requests import UnusedRequests
from quorum_operator.crd import EarlierClaimsPolicy, MetadataQuorumSpec
from quorum_operator.desired.names import (
    ANNOTATION_BROKERS_RENEWED,
    ANNOTATION_BROKERS_TRUST,
    ANNOTATION_CERTIFICATES,
    ANNOTATION_ROTATE,
    Owner,
)
from quorum_operator.kube import paths
from quorum_operator.kube.client import KubeApi
from quorum_operator.kube.errors import AlreadyExists, ApiError, Forbidden, NotFound
from quorum_operator.kube.observe import Cluster
from quorum_operator.planner.certificates_seen import CertificatesSeen, Trouble
from quorum_operator.planner.object_facts import Refusal
from quorum_operator.planner.observed import Incarnation, Observation
from quorum_operator.pod_client import TlsPodClient, client_context
from quorum_operator.quantity import whole_number
from quorum_operator.refused import by_api, is_outage, passing
from quorum_operator.report import REPORTED_TIMES
from quorum_operator.tls_crd import TlsSpec
from quorum_operator.transport import Transport

MOST_STEPS = 16
"""Maximum number of writes in one reconcile."""
MOST_ADOPTIONS = 3
"""Maximum number of adoption rounds: objects adopted first contain the generations of the authorities."""
QUIET_S = 60.0
LOOKS_BETWEEN = 6
"""Number of reconciles between two reads of the Secrets while all certificates are valid."""
WAIT_S = 1.0
REFUSED_S = 5.0

PostEvent = Callable[[str, str, str], Awaitable[None]]
"""Posts an event: kind, reason, message."""
MakeHttp = Callable[[ssl.SSLContext], httpx.AsyncClient]

_log = structlog.get_logger("quorum_operator")


@dataclass(frozen=True, slots=True)
class Key:
    """The operator's certificate and trusted authorities; a different key needs a new client."""

    presented: str
    trusted: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Opened:
    """The objects that were read, and the client for the pods. `pair`: the operator's certificate and the authority
    that signed it. `tls_spec`: `spec.tls`.
    """

    found: Found
    holders: tuple[Holder, ...]
    pod_client: TlsPodClient
    key: Key
    pair: tuple[issuing.Pair, str] | None
    tls_spec: TlsSpec | None


@dataclass(frozen=True, slots=True)
class Kept:
    """Result of one pass. `settled`: nothing to do. `again_s`: seconds until the Secrets have to be read again."""

    seen: CertificatesSeen
    settled: bool
    again_s: float


@dataclass(slots=True)
class _Pass:
    """One pass over the certificates of a quorum, and its progress. `found`: the current objects. `notes`: annotations of the resource."""

    owner: Owner
    opened: Opened
    seen: Observation
    notes: dict[str, str]
    post_event: PostEvent
    attempts: CertificateAttempts
    found: Found
    changed: bool = False
    missing: Trouble | None = None
    is_over: bool = False
    """Whether to try no further step."""


def plain_http(context: ssl.SSLContext) -> httpx.AsyncClient:
    """Return a client that does not reuse connections, because another pod may get the same address."""
    return httpx.AsyncClient(transport=Transport(context))


async def close(opened: Opened | None) -> None:
    """Close a client that is no longer used: its certificate or authority was replaced, or the quorum was deleted."""
    if opened is not None:
        await opened.pod_client.http.aclose()


class CertificateKeeper:
    """Certificates of all quorums. `clock`: seconds since 1970, of the API server if known."""

    def __init__(
        self,
        api: KubeApi,
        clock: Callable[[], float],
        make_http: MakeHttp = plain_http,
        quiet_s: float = QUIET_S,
    ) -> None:
        self._api, self._clock, self._make_http = api, clock, make_http
        self._quiet_s, self._trials = quiet_s, Trials()
        self._unused = UnusedRequests(api)

    async def open(
        self,
        owner: Owner,
        spec: MetadataQuorumSpec,
        cluster: Cluster,
        before: Opened | None,
    ) -> Opened:
        """Read the objects, and open the client for the pods. Raises ApiError."""
        all_holders = (*members_of(owner, cluster.incarnations), *others_of(spec))
        tls_spec = spec.tls
        found = await self._read(owner, all_holders, spec)
        seen = self._seen(owner, found, cluster.incarnations, all_holders, None, tls_spec)
        trusted = rotation.trusted_by(seen)
        pair = self._own_pair(owner, found, seen, before)
        presented = pair[0] if pair is not None else _borrowed(found, seen)
        key = Key(
            presented.certificate.fingerprint if presented is not None else "",
            tuple(each.fingerprint for each in trusted),
        )
        if before is not None and before.key == key:
            http = before.pod_client.http
        else:
            http = self._make_http(_context(trusted, presented))
            await close(before)
        shared = f"{owner.admin_service}.{owner.namespace}.svc"
        pod_client = TlsPodClient(http, _names(owner, cluster), shared)
        return Opened(found, all_holders, pod_client, key, pair, tls_spec)

    async def _read(
        self, owner: Owner, all_holders: tuple[Holder, ...], spec: MetadataQuorumSpec
    ) -> Found:
        """Read the objects. With `spec.earlierClaims`, adopt those of the earlier resource, because its members use them."""
        found = await store.read(self._api, owner, all_holders, spec.tls)
        if spec.earlier_claims.policy is not EarlierClaimsPolicy.ADOPT:
            return found
        for _ in range(MOST_ADOPTIONS):
            if not found.ownerless:
                break
            await store.adopt(self._api, owner, found.ownerless)
            found = await store.read(self._api, owner, all_holders, spec.tls)
        return found

    def _own_pair(
        self, owner: Owner, found: Found, seen: Seen, before: Opened | None
    ) -> tuple[issuing.Pair, str] | None:
        """The operator's current key pair, unless it is due for renewal or the authority has changed."""
        signer = rotation.signer_of(seen)
        if seen.issued is not None:
            issued = _issued_pair(found, seen)
            return (issued, "") if issued is not None else None
        kept = before.pair if before is not None else None
        if kept is not None and not kept[0].certificate.validity.has(self._clock()):
            kept = None  # Expired, or signed while the clock was ahead: no member would accept it.
        if signer is None or signer.certificate is None:
            return kept
        name, now = signer.certificate.fingerprint, self._clock()
        fresh = (
            kept is not None and kept[1] == name and now < kept[0].certificate.validity.leaf_due_at
        )
        if fresh or now >= signer.certificate.validity.not_after:
            return kept
        try:
            authority = store.authority_in(found.objects.authorities[signer.generation])
        except (Unreadable, KeyError):
            return kept
        return issuing.issue(owner, holders.operator(), authority, now), name

    async def keep(
        self,
        owner: Owner,
        opened: Opened,
        seen: Observation,
        notes: dict[str, str],
        post_event: PostEvent,
        attempts: CertificateAttempts,
    ) -> Kept:
        """Execute as many steps as possible now. Raises ApiError if the API server is unavailable."""
        work = _Pass(owner, opened, seen, notes, post_event, attempts, opened.found)
        idle = seen.deleting or seen.wanted.paused or _adopts(seen)
        if not idle:
            await self._restore(work)
        facts, step = await self._take_steps(work, idle=idle)
        settled = (isinstance(step, Settled) or idle) and not work.changed
        if settled and not idle:
            await self._drop_unused(owner, opened, post_event)
        held = self._held(work, step)
        if held is None:
            attempts.settled(seen.generation, inf if settled else self._clock())
        again_s = self._again_s(work, held, settled=settled)
        return Kept(self._account(work, facts, step), settled, again_s)

    async def _restore(self, work: _Pass) -> None:
        """Restore owners and labels that another client removed."""
        facts = self._complete_facts(work)
        for step in restorations(
            work.owner, work.found.objects, work.found.ownerless, work.opened.holders, facts
        ):
            if self._held(work, step) is None and await self._carry_out(work, step):
                work.is_over = True  # The objects are read again before anything else is written.
                await self._note(work, step)

    async def _take_steps(self, work: _Pass, *, idle: bool) -> tuple[Seen, Step]:
        """Execute the planned steps. Returns the last observation, and the step that was planned for it."""

        def is_held(step: Step) -> bool:
            return self._held(work, step) is not None

        for _ in range(MOST_STEPS):
            facts = self._complete_facts(work)
            step = rotation.plan(facts, is_held)
            if idle or work.is_over or isinstance(step, WaitFor | Settled) or is_held(step):
                break
            if await self._carry_out(work, step):
                await self._note(work, step)
                await self._hurry(work.owner, step, work.found, work.seen)
        return facts, step

    def _held(self, work: _Pass, step: Step) -> Refusal | None:
        return work.attempts.held(work.owner, work.seen.generation, step, self._clock())

    def _again_s(self, work: _Pass, held: Refusal | None, *, settled: bool) -> float:
        """Seconds until the Secrets have to be read again. `held`: why the next step is delayed."""
        if work.changed:
            return 0.0
        if settled:
            # Spread over time, so that not all quorums are checked at once.
            return self._quiet_s * random.uniform(0.8, 1.2)
        if work.is_over:
            return REFUSED_S
        return WAIT_S if held is None else max(held.retry_at - self._clock(), 0.0)

    def _account(self, work: _Pass, facts: Seen, step: Step) -> CertificatesSeen:
        """The state of the certificates for the status of the resource."""
        refused = work.attempts.message(work.seen.generation, self._clock())
        state = account(facts, step, refused if work.missing is None else "")
        if work.missing is not None:
            state = replace(state, troubles=(work.missing, *state.troubles))
        unused = [
            f"{each.name}: {problem}"
            for each in work.seen.incarnations
            if (problem := _problem(each))
        ]
        return replace(state, problems=(*state.problems, *unused))

    async def _carry_out(self, work: _Pass, step: Step) -> bool:
        """Execute one step. Returns whether it was executed. Raises ApiError if the API server is unavailable."""
        owner, generation, attempts = work.owner, work.seen.generation, work.attempts
        subject = store.subject_of(owner, step)
        try:
            work.found = await store.write(self._api, owner, work.found, step, self._clock())
        except ValueError as error:
            # Invalid contents of one certificate must not keep members from being repaired.
            why = Refused(subject, "NotMade", f"it can't be made: {error}")
            attempts.refused(owner, generation, step, why, self._clock())
            _log.exception("certificate step failed", quorum=owner.name)
            return False
        except ApiError as error:
            why = by_api(subject, error)
            if is_outage(error):
                # Perhaps for this object only: the next reconcile goes on without it.
                attempts.refused(owner, generation, step, passing(why), self._clock())
                raise
            message = f"{why.subject}: {why.message}"
            if isinstance(step, RequestCertificate) and not isinstance(error, AlreadyExists):
                work.missing, work.is_over = _no_issuer(error, message), True
            else:
                attempts.refused(owner, generation, step, why, self._clock())
            _log.warning("certificate step refused", quorum=owner.name, error=message)
            return False
        work.changed = True
        return True

    async def _drop_unused(self, owner: Owner, opened: Opened, post_event: PostEvent) -> None:
        """Delete Certificates of holders that no longer exist."""
        issues = opened.tls_spec is not None and opened.tls_spec.issuer_ref is not None
        needed = frozenset(request_name(owner, each) for each in opened.holders)
        for name in await self._unused.drop(owner, needed if issues else None):
            text = f"Certificate/{name}: its holder no longer exists"
            await post_event("Normal", "DropRequest", text)

    async def _hurry(self, owner: Owner, step: Step, found: Found, seen: Observation) -> None:
        """Change the pod's annotation, so that the kubelet updates the mounted Secret at once instead of within two
        minutes. Failures are ignored.
        """
        if (
            not isinstance(step, WriteLeaf | WriteBundle | CopyIssuedPair)
            or step.holder.role is not Role.MEMBER
        ):
            return
        name = step.holder.name
        if not any(each.name == name and each.pod is not None for each in seen.incarnations):
            return
        version = found.objects.leaves[name]["metadata"]["resourceVersion"]
        path = paths.namespaced("pods", owner.namespace, f"{name}-0")
        notes = {ANNOTATION_CERTIFICATES: version}
        try:
            await self._api.merge(path, {"metadata": {"annotations": notes}})
        except ApiError as error:
            _log.info(
                "pod was not notified of its new certificates", pod=f"{name}-0", error=str(error)
            )

    async def _note(self, work: _Pass, step: Step) -> None:
        """Record an executed step, and report it in the log and with an event, unless it is repeated again and again."""
        owner = work.owner
        times = work.attempts.done(owner, work.seen.generation, step, self._clock())
        if times > REPORTED_TIMES:
            return
        subject, name = store.subject_of(owner, step), type(step).__name__
        _log.info(
            "certificate step",
            quorum=owner.name,
            namespace=owner.namespace,
            step=name,
            object=subject,
            reason=step.reason if not isinstance(step, Settled) else "",
        )
        if not isinstance(step, ExtendSignedUntil | Settled):
            await work.post_event("Normal", name, f"{subject}: {step.reason}")

    def _complete_facts(self, work: _Pass) -> Seen:
        opened, seen, notes = work.opened, work.seen, work.notes
        facts = self._seen(
            work.owner, work.found, seen.incarnations, opened.holders, seen, opened.tls_spec
        )
        facts = replace(facts, names_taken=work.found.taken)
        newest = max((each.generation for each in facts.authorities), default=0)
        signer = rotation.signer_of(facts)
        signing = signer.generation if signer is not None else newest
        if facts.issued is not None:
            newest, signing = (newest + 1, newest + 1) if newest else (0, 0)
        brokers = tuple(each.name for each in opened.holders if each.role is Role.BROKER)
        # The first authority needs no confirmation, because no broker can trust an earlier one.
        informed = newest <= 1 or _number(notes, ANNOTATION_BROKERS_TRUST) >= newest
        return replace(
            facts,
            rotation_requested=_requested(facts, _number(notes, ANNOTATION_ROTATE), newest),
            unaware=() if informed else brokers,
            lagging=brokers if _number(notes, ANNOTATION_BROKERS_RENEWED) < signing else (),
        )

    def _seen(
        self,
        owner: Owner,
        found: Found,
        incarnations: tuple[Incarnation, ...],
        all_holders: tuple[Holder, ...],
        seen: Observation | None,
        tls_spec: TlsSpec | None,
    ) -> Seen:
        shown = store.certificates_in(owner, all_holders, found)
        view = seen.view if seen is not None else None
        members = members_seen(owner, incarnations, view, shown)
        others = tuple(each for each in all_holders if each.role is not Role.MEMBER)
        now = self._clock()
        given = named(owner.namespace, tls_spec, found.named, now)
        given = self._trials.without_useless(owner, given, found.named, now)
        issuer = tls_spec.issuer_ref if tls_spec is not None else None
        return certificate_facts(owner, now, found.objects, members, others, given, issuer)


def _no_issuer(error: ApiError, refused: str) -> Trouble:
    """The problem after a failed request: cert-manager is not installed, may not be used, or rejects the request."""
    if isinstance(error, NotFound):
        text = (
            "spec.tls.issuerRef needs cert-manager, and the cluster has no resource definition "
            "certificates.cert-manager.io: install cert-manager"
        )
        return Trouble("IssuerMissing", f"{text}. {STAYS}")
    if isinstance(error, Forbidden):
        text = f"{refused}. Install the chart with certManager.enabled=true"
        return Trouble("IssuerForbidden", f"{text}. {STAYS}")
    return Trouble("IssuerFailed", f"{refused}. {STAYS}")


def _problem(each: Incarnation) -> str:
    """Why a process does not use the certificate in its files."""
    loaded = each.report.certificates if each.report is not None else None
    return loaded.problem if loaded is not None else ""


def _requested(facts: Seen, requested: int, newest: int) -> int:
    """The user's open request for another authority; 0 if there is none. A single authority fulfils it, even if the
    number is far beyond the newest generation, such as a time.
    """
    served = any(each.requested == requested for each in facts.authorities)
    return requested if requested > newest > 0 and not served else 0


def _number(notes: dict[str, str], name: str) -> int:
    """The number in an annotation; 0 if it is not a number."""
    return whole_number(notes.get(name)) or 0


def _adopts(seen: Observation) -> bool:
    """Whether members of an earlier resource are about to be adopted. Until then it is unknown whom they trust."""
    sets = (each for each in seen.foreign_objects if each.kind == "StatefulSet")
    return seen.wanted.adopt is not None and any(not each.owners for each in sets)


def _issued_pair(found: Found, seen: Seen) -> issuing.Pair | None:
    """The operator's key pair from an external issuer; None without a valid one, which members would refuse."""
    name = holders.operator().name
    if any(each.holder == name and each.certificate is not None for each in seen.leaves):
        return store.pair_in(found.objects.leaves[name])
    return None


def _borrowed(found: Found, seen: Seen) -> issuing.Pair | None:
    """The key pair of another holder, used by the operator if it has no valid one: the authority's key is lost and
    nothing can be signed, or its Secret is damaged. Without it no member could be queried, so that the next authority
    would never sign.
    """
    for each in seen.leaves:
        if each.certificate is not None:
            pair = store.pair_in(found.objects.leaves[each.holder])
            if pair is not None:
                return pair
    return None


def _context(trusted: tuple[Read, ...], pair: issuing.Pair | None) -> ssl.SSLContext:
    bundle = documents.bundle_text(trusted)
    if pair is None:
        return client_context(bundle)
    return client_context(bundle, pair.chain_pem, pair.key_pem)


def _names(owner: Owner, cluster: Cluster) -> dict[str, str]:
    """DNS names of pods by their addresses."""
    names = {
        each.pod.ip: owner.host(each.name)
        for each in cluster.incarnations
        if each.pod is not None and each.pod.ip is not None
    }
    strays = {
        each.ip: owner.host(owner.member(each.node_id, each.number)) for each in cluster.strays
    }
    return {**strays, **names}
