"""Observes all objects of a MetadataQuorum.

Reads run concurrently; nothing is cached between reconciles, because a stale read must never justify a destructive
step. Node reports and the description of the quorum come from `quorum_client.py`.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import structlog

from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.desired import (
    base_objects,
    disruption_budget,
    names,
    network_policy,
    stateful_set,
    tls,
)
from quorum_operator.desired.names import Owner
from quorum_operator.kube import creation_events, facts, mounts, paths
from quorum_operator.kube.claims import claim_facts, lone_claims
from quorum_operator.kube.drift import drift, immutable_drift, template_drift
from quorum_operator.kube.errors import ApiError, Forbidden, Unavailable
from quorum_operator.kube.finding import (
    MemberId,
    Parts,
    Reads,
    Search,
    WideReads,
    cluster_id_of,
    find_parts,
    formation_of,
    without_identities,
)
from quorum_operator.kube.formation_evidence import formation_evidence
from quorum_operator.kube.hosts import read_hosts
from quorum_operator.kube.label_drift import label_drift
from quorum_operator.kube.pod_template import with_template
from quorum_operator.kube.token import has_shape, token_of
from quorum_operator.kube.volumes import read_volumes
from quorum_operator.planner.claim_marks import merged
from quorum_operator.planner.credible_identity import credible_identities
from quorum_operator.planner.evidence import CIRCUMSTANCES
from quorum_operator.planner.growth import wants_more
from quorum_operator.planner.object_facts import ForeignObject, LabelDrift, Templates
from quorum_operator.planner.observed import (
    Identity,
    Incarnation,
    LoneClaim,
    NodeReport,
    PodFacts,
    StorageChoice,
    StrayPod,
    VolumeFacts,
)
from quorum_operator.planner.tls_stage import TlsStage, stage_left, stage_of_process

Object = dict[str, Any]

SOON_S = 3.0
"""Age below which a missing container or pod is not investigated yet."""
EVENTS_S = 5.0
"""Time limit for reading events."""

_log = structlog.get_logger("quorum_operator")


@dataclass(frozen=True, slots=True)
class Stray:
    """A member's pod whose StatefulSet was deleted; it can still be queried."""

    node_id: int
    ip: str
    number: int = 1


@dataclass(frozen=True, slots=True)
class Cluster:
    """The Kubernetes objects of one quorum, before any node is queried."""

    identities: tuple[Identity, ...]
    stale_objects: tuple[str, ...]
    label_drift: tuple[LabelDrift, ...]
    foreign_objects: tuple[ForeignObject, ...]
    unlabelled: frozenset[MemberId]
    """Members of which a wide search found additional objects."""
    strays: tuple[Stray, ...]
    incarnations: tuple[Incarnation, ...]
    used_numbers: dict[int, int]
    templates: dict[str, Templates]
    storage_class_exists: bool
    lone_claims: tuple[LoneClaim, ...] = ()
    stray_pods: tuple[StrayPod, ...] = ()
    token: str | None = None
    """The admin token, if the objects were checked."""
    mounts_created_at: float | None = None
    """Creation time of the nodes' ConfigMap, if the objects were checked."""
    drain_floor: int | None = None
    """`minAvailable` of the disruption budget, if the objects were checked."""
    tls_stage: TlsStage = TlsStage.PLAIN
    """TLS stage of the members."""
    certified: bool = False
    """Whether the quorum has certificates or will get them."""


async def observe(
    api: WideReads,
    owner: Owner,
    spec: MetadataQuorumSpec,
    search: Search,
    *,
    check_objects: bool,
    copies: Reads | None = None,
    now: float = inf,
) -> Cluster:
    """Read all objects of a quorum; Services and similar objects only if `check_objects` is set.

    `copies`: the cache for cluster-scoped objects (`volumes.read_volumes`); `now`: seconds since 1970 by the API server's
    clock if known. Raises ApiError.
    """
    parts, has_class = await asyncio.gather(
        find_parts(api, owner, search),
        _has_storage_class(api, spec, copies),
    )
    identities, unknown = credible_identities(
        [
            identity
            for index, each in sorted(parts.identities.items())
            if (identity := facts.identity_facts(each, index)) is not None
        ],
        formation_evidence(parts),
    )
    parts = without_identities(parts, unknown)
    policed = network_policy.is_wanted(spec, identities)
    stage = _tls_stage(spec, identities, parts)
    volumes, events, checked = await asyncio.gather(
        _volumes(api, parts, copies),
        _events(api, owner.namespace, parts, now - SOON_S),
        _check(api, owner, spec, policed, stage, identities) if check_objects else _unchecked(),
    )
    incarnations = _with_drift(
        owner, spec, parts, identities, _incarnations(owner, spec, parts, volumes, events)
    )
    incarnations = await _with_growth(api, spec, incarnations, copies)
    hosts = await read_hosts(api, incarnations, copies)
    incarnations = tuple(
        replace(each, host=hosts.get((each.node_id, each.number))) for each in incarnations
    )
    return Cluster(
        identities=identities,
        stale_objects=checked.stale,
        token=checked.token,
        mounts_created_at=checked.mounts_created_at,
        drain_floor=checked.drain_floor,
        label_drift=label_drift(owner, parts),
        foreign_objects=parts.foreign,
        unlabelled=parts.unlabelled,
        strays=tuple(_strays(parts)),
        incarnations=incarnations,
        lone_claims=lone_claims(
            owner, parts.claims, parts.sets.keys() | _foreign_sets(owner, parts), parts.pods
        ),
        stray_pods=tuple(_stray_pods(owner, parts)),
        used_numbers=_used_numbers(parts),
        templates=_templates(owner, spec, identities, incarnations),
        storage_class_exists=has_class,
        tls_stage=stage,
        certified=tls.is_certified(spec, identities, stage),
    )


def _tls_stage(
    spec: MetadataQuorumSpec, identities: tuple[Identity, ...], parts: Parts
) -> TlsStage:
    """The TLS stage. Without an identity it follows from StatefulSets, or from claims if no member should run.
    Annotations of claims do not count while members run, because they determine how running members can be called.
    """
    if identities or not (parts.sets or parts.claims):
        return tls.stage_of(spec, identities)
    run = any(each["spec"].get("replicas", 1) > 0 for each in parts.sets.values())
    if not run and any(claim_facts(each).marks.tls for each in parts.claims.values()):
        return TlsStage.CLOSED
    return stage_left(stage_of_process(facts.overrides_of(each)) for each in parts.sets.values())


def _strays(parts: Parts) -> Iterator[Stray]:
    for member_id, pod in sorted(parts.pods.items()):
        seen = facts.pod_facts(pod, None)
        if member_id not in parts.sets and seen.ip is not None and seen.running:
            yield Stray(member_id[0], seen.ip, member_id[1])


def _stray_pods(owner: Owner, parts: Parts) -> Iterator[StrayPod]:
    """Pods without a StatefulSet; not those beside a StatefulSet of another owner, which may adopt them."""
    kept = parts.sets.keys() | _foreign_sets(owner, parts)
    for (node_id, number), pod in sorted(parts.pods.items()):
        if (node_id, number) not in kept:
            yield StrayPod(node_id, number, facts.pod_facts(pod, None))


async def _volumes(api: Reads, parts: Parts, copies: Reads | None) -> dict[str, VolumeFacts]:
    """Volumes by name. Those of members marked failed by an indirect sign are read from the API server, because the mark
    is revoked once the sign has disappeared.
    """
    sound: list[Object] = []
    doubtful: list[Object] = []
    for member_id, claim in parts.claims.items():
        if member_id in parts.sets:
            notes = parts.sets[member_id]["metadata"].get("annotations") or {}
            latch = facts.latch_facts(notes.get(names.ANNOTATION_FAILED))
            circumstance = latch is not None and latch.reason in CIRCUMSTANCES
            (doubtful if circumstance else sound).append(claim)
    found = await asyncio.gather(read_volumes(api, sound, copies), read_volumes(api, doubtful))
    return {**found[0], **found[1]}


async def _has_storage_class(api: Reads, spec: MetadataQuorumSpec, copies: Reads | None) -> bool:
    name = spec.storage.storage_class_name
    if not name:
        return True
    path = paths.storage_class(name)
    try:
        if copies is not None and await copies.get(path) is not None:
            return True
        return await api.get(path) is not None
    except ApiError:
        return True


async def _with_growth(
    api: Reads,
    spec: MetadataQuorumSpec,
    incarnations: tuple[Incarnation, ...],
    copies: Reads | None,
) -> tuple[Incarnation, ...]:
    """Add whether claims that have to grow can be expanded, according to their storage classes."""
    wanted = StorageChoice(spec.storage.size, spec.storage.storage_class_name)
    classes = {
        each.claim.storage_class
        for each in incarnations
        if each.claim is not None and each.claim.storage_class and wants_more(each, wanted)
    }
    if not classes:
        return incarnations
    grow = {name for name in classes if name and await _is_expandable(api, name, copies)}

    def with_expandable(each: Incarnation) -> Incarnation:
        if each.claim is None or each.claim.storage_class not in grow:
            return each
        return replace(each, claim=replace(each.claim, expandable=True))

    return tuple(map(with_expandable, incarnations))


async def _is_expandable(api: Reads, name: str, copies: Reads | None) -> bool:
    path = paths.storage_class(name)
    try:
        found = await copies.get(path) if copies is not None else None
        found = found or await api.get(path)
    except ApiError:
        return False
    return bool(found and found.get("allowVolumeExpansion"))


_MOUNTED = ("ConfigMap", "Secret")


@dataclass(frozen=True, slots=True)
class _Checked:
    """Objects that are missing, changed or obsolete, and facts from the others."""

    stale: tuple[str, ...] = ()
    token: str | None = None
    mounts_created_at: float | None = None
    drain_floor: int | None = None


async def _unchecked() -> _Checked:
    return _Checked()


async def _check(
    api: Reads,
    owner: Owner,
    spec: MetadataQuorumSpec,
    policed: bool | None,
    stage: TlsStage,
    identities: tuple[Identity, ...],
) -> _Checked:
    newest = max(identities, key=lambda each: each.index, default=None)
    wanted = base_objects.build_all(owner, spec, stage, newest)
    secret = paths.namespaced("secrets", owner.namespace, owner.token_secret)
    found = await asyncio.gather(api.get(secret), *(_get_if_allowed(api, each) for each in wanted))
    ours = (live for live in found[1:] if live and base_objects.is_ours(live, owner))
    budgets = (live for live in ours if live["kind"] == disruption_budget.KIND)
    floor = disruption_budget.floor_of(next(budgets, None))
    wanted = base_objects.build_all(owner, spec, stage, newest, floor)
    stale = [] if has_shape(found[0], owner) else [f"Secret/{owner.token_secret}"]
    for each, live in zip(wanted, found[1:], strict=True):
        if each["kind"] == network_policy.KIND and policed is not True:
            unwanted = policed is False
            is_stale = unwanted and live is not None and base_objects.belongs_to(live, owner)
        else:
            is_stale = live is None or drift(each, live) is not None
        if is_stale:
            stale.append(f"{each['kind']}/{each['metadata']['name']}")
    mounted = (live for live in found if live and live["kind"] in _MOUNTED)
    made = [facts.seconds(live["metadata"]["creationTimestamp"]) for live in mounted]
    newest_made = max((each for each in made if each is not None), default=None)
    token = None if found[0] is None else token_of(found[0])
    return _Checked(tuple(stale), token, newest_made, floor)


async def _get_if_allowed(api: Reads, wanted: Object) -> Object | None:
    """Read an object. A network policy that an older role may not read counts as missing; creating it is then rejected
    with a message.
    """
    try:
        return await api.get(base_objects.path_of(wanted))
    except Forbidden:
        if wanted["kind"] != network_policy.KIND:
            raise
        return None


async def _events(
    api: Reads, space: str, parts: Parts, made_before: float
) -> dict[str, list[Object]]:
    """Events by UID, only of pods whose container is overdue and of StatefulSets whose pod is overdue: for each list the
    API server reads all events of the namespace. They only explain what does not run, and often are in a storage of their
    own: without an answer there are none.
    """
    waiting: list[Object] = []
    for member_id, each in parts.sets.items():
        pod = parts.pods.get(member_id)
        if pod is not None and facts.needs_events(pod):
            waiting.append(pod["metadata"])
        elif creation_events.needs_events(each, pod):
            waiting.append(each["metadata"])
    overdue = [
        meta["uid"]
        for meta in waiting
        if (facts.seconds(meta["creationTimestamp"]) or 0.0) <= made_before
    ]
    found = await asyncio.gather(*(_events_of(api, space, uid) for uid in overdue))
    return dict(zip(overdue, found, strict=True))


async def _events_of(api: Reads, space: str, uid: str) -> list[Object]:
    try:
        async with asyncio.timeout(EVENTS_S):
            path = paths.namespaced("events", space)
            return await api.find(path, fields=f"involvedObject.uid={uid}")
    except (Unavailable, TimeoutError) as error:
        _log.warning("events not read", namespace=space, error=str(error) or type(error).__name__)
        return []


def _pod(
    pod: Object, events: dict[str, list[Object]], volume: str | None, owned: Object
) -> PodFacts:
    pod_events = events.get(pod["metadata"]["uid"], [])
    failure = mounts.mount_failure(pod, pod_events, volume)
    seen = facts.pod_facts(pod, failure, mounts.unusable_volume(pod, volume))
    seen = replace(seen, mount_obstacle=mounts.mount_obstacle(pod, pod_events))
    return with_template(seen, pod, owned)


def _incarnations(
    owner: Owner,
    spec: MetadataQuorumSpec,
    parts: Parts,
    volumes: dict[str, VolumeFacts],
    events: dict[str, list[Object]],
) -> tuple[Incarnation, ...]:
    storage = StorageChoice(spec.storage.size, spec.storage.storage_class_name)
    current = max(parts.identities, default=1)
    found = []
    for member_id, each in sorted(parts.sets.items()):
        meta = each["metadata"]
        notes = meta.get("annotations") or {}
        pod, claim = parts.pods.get(member_id), parts.claims.get(member_id)
        claim_seen = claim_facts(claim) if claim is not None else None
        bound = claim_seen.volume if claim_seen is not None else None
        created = facts.seconds(meta["creationTimestamp"])
        assert created is not None
        marked = claim_seen.marks.recovery if claim_seen is not None else None
        recovery, given_up = facts.recovery_facts(notes.get(names.ANNOTATION_RECOVERY) or marked)
        found.append(
            Incarnation(
                node_id=member_id[0],
                number=member_id[1],
                name=meta["name"],
                uid=meta["uid"],
                resource_version=meta["resourceVersion"],
                created_at=created,
                formation=formation_of(each) or current,
                storage=facts.claimed_storage(each, storage, claim),
                replicas=int(each["spec"].get("replicas", 1)),
                uuid=notes.get(names.ANNOTATION_UUID) or None,
                failed=facts.latch_facts(notes.get(names.ANNOTATION_FAILED)),
                unlatched_at=facts.unlatched_facts(notes.get(names.ANNOTATION_TAKEN_BACK)),
                stopped=notes.get(names.ANNOTATION_STOPPED) or None,
                replaces=facts.replaces_facts(notes.get(names.ANNOTATION_REPLACES)),
                predecessor=_member_in(owner, notes.get(names.ANNOTATION_PREDECESSOR)),
                rebuilt=names.ANNOTATION_REBUILT in notes,
                recovery=recovery,
                recovery_given_up=given_up,
                template_hash=notes.get(names.ANNOTATION_TEMPLATE),
                cluster_id=cluster_id_of(each),
                founding=facts.founding_facts(facts.overrides_of(each)),
                tls_stage=stage_of_process(facts.overrides_of(each)),
                held_by=facts.held_by(meta),
                pod=_pod(pod, events, bound, each) if pod is not None else None,
                not_made=creation_events.not_made(events.get(meta["uid"], []))
                if pod is None
                else None,
                claim=claim_seen,
                volume=volumes.get(bound) if bound is not None else None,
            )
        )
    return tuple(map(merged, found))


def _member_in(owner: Owner, text: str | None) -> str | None:
    """The name of a member in an annotation. Anything else, which somebody may have written, is ignored."""
    return text if text is not None and owner.parse_member(text) is not None else None


def _foreign_sets(owner: Owner, parts: Parts) -> set[MemberId]:
    """Member names whose StatefulSet has another owner."""
    sets = (each.name for each in parts.foreign if each.kind == "StatefulSet")
    return {member_id for name in sets if (member_id := owner.parse_member(name)) is not None}


def _used_numbers(parts: Parts) -> dict[int, int]:
    used: dict[int, int] = {}
    for node_id, number in parts.taken:
        if number <= names.MOST_COUNTED:
            used[node_id] = max(used.get(node_id, 0), number)
    return used


def _templates(
    owner: Owner,
    spec: MetadataQuorumSpec,
    identities: tuple[Identity, ...],
    incarnations: tuple[Incarnation, ...],
) -> dict[str, Templates]:
    by_index = {each.index: each for each in identities}
    return {
        each.name: stateful_set.hashes(
            owner, spec, stateful_set.founder_or_member(each, by_index[each.formation])
        )
        for each in incarnations
        if each.formation in by_index
    }


def _with_drift(
    owner: Owner,
    spec: MetadataQuorumSpec,
    parts: Parts,
    identities: tuple[Identity, ...],
    incarnations: tuple[Incarnation, ...],
) -> tuple[Incarnation, ...]:
    """Add changes by other clients to StatefulSets whose template should be current."""
    by_index = {each.index: each for each in identities}
    live = {each["metadata"]["name"]: each for each in parts.sets.values()}

    def drifted(each: Incarnation) -> Incarnation:
        if each.formation not in by_index:
            return each
        member = stateful_set.founder_or_member(each, by_index[each.formation])
        wanted, there = stateful_set.build(owner, spec, member), live[each.name]
        found, fixed = template_drift(wanted, there), immutable_drift(wanted, there)
        return replace(each, drift=found, immutable_drift=fixed) if found or fixed else each

    return tuple(map(drifted, incarnations))


def with_report(each: Incarnation, report: NodeReport | None) -> Incarnation:
    """The incarnation with its process's report."""
    return replace(each, report=report)
