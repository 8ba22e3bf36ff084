"""One live look at everything a MetadataQuorum is made of.

Reads run at once; nothing is cached between reconciles, because a stale read must never justify a
destructive step. Node reports and the quorum description come from `quorum_client.py`.
"""

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.desired import base_objects, names, stateful_set
from quorum_operator.desired.names import Owner
from quorum_operator.kube import facts, paths
from quorum_operator.kube.client import KubeApi
from quorum_operator.kube.errors import ApiError
from quorum_operator.planner.observed import (
    Identity,
    Incarnation,
    NodeReport,
    StorageChoice,
    Templates,
    VolumeFacts,
)

Object = dict[str, Any]

_MOUNT_FAILURES = frozenset({"FailedMount", "FailedAttachVolume", "FailedMapVolume"})


@dataclass(frozen=True, slots=True)
class Cluster:
    """What the Kubernetes API holds of one quorum, before any node was asked."""

    identities: tuple[Identity, ...]
    stale_objects: tuple[str, ...]
    incarnations: tuple[Incarnation, ...]
    used_numbers: dict[int, int]
    templates: dict[str, Templates]
    storage_class_exists: bool


async def observe(
    api: KubeApi, owner: Owner, spec: MetadataQuorumSpec, *, check_objects: bool
) -> Cluster:
    """Read everything live; services and the like only when `check_objects` is set."""
    space, labels = owner.namespace, owner.selector

    def listing(plural: str) -> Any:
        return api.find(paths.namespaced(plural, space), labels=labels)

    config_maps, sets, pods, claims, stale, has_class = await asyncio.gather(
        listing("configmaps"),
        listing("statefulsets"),
        listing("pods"),
        listing("persistentvolumeclaims"),
        _stale_objects(api, owner, spec) if check_objects else _nothing_stale(),
        _has_storage_class(api, spec),
    )
    sets = [each for each in sets if _is_ours(each, owner)]
    volumes, mounts = await asyncio.gather(_volumes(api, claims), _mount_failures(api, space, pods))
    identities = tuple(
        facts.identity_facts(each)
        for each in config_maps
        if f"{names.PREFIX}/identity" in each["metadata"]["labels"] and _is_ours(each, owner)
    )
    incarnations = _incarnations(spec, sets, pods, claims, volumes, mounts)
    return Cluster(
        identities=identities,
        stale_objects=stale,
        incarnations=incarnations,
        used_numbers=_used_numbers([*sets, *claims]),
        templates=_templates(owner, spec, identities, incarnations),
        storage_class_exists=has_class,
    )


def _is_ours(found: Object, owner: Owner) -> bool:
    """Labels alone can be copied; what belongs to an earlier resource of this name is not ours."""
    references = found["metadata"].get("ownerReferences", [])
    return any(reference.get("uid") == owner.uid for reference in references)


async def _has_storage_class(api: KubeApi, spec: MetadataQuorumSpec) -> bool:
    name = spec.storage.storage_class_name
    if not name:
        return True
    try:
        return await api.get(paths.storage_class(name)) is not None
    except ApiError:
        return True


async def _nothing_stale() -> tuple[str, ...]:
    return ()


async def _stale_objects(api: KubeApi, owner: Owner, spec: MetadataQuorumSpec) -> tuple[str, ...]:
    wanted = base_objects.build_all(owner, spec)
    secret = paths.namespaced("secrets", owner.namespace, owner.token_secret)
    found = await asyncio.gather(
        api.get(secret), *(api.get(base_objects.path_of(each)) for each in wanted)
    )
    stale = [] if found[0] is not None else [f"Secret/{owner.token_secret}"]
    for each, live in zip(wanted, found[1:], strict=True):
        if live is None or base_objects.content_hash(live) != base_objects.content_hash(each):
            stale.append(f"{each['kind']}/{each['metadata']['name']}")
    return tuple(stale)


async def _volumes(api: KubeApi, claims: list[Object]) -> dict[str, VolumeFacts]:
    wanted = sorted({name for claim in claims if (name := claim["spec"].get("volumeName"))})
    found = await asyncio.gather(*(api.get(paths.volume(name)) for name in wanted))
    volumes = [volume for volume in found if volume is not None]
    hosts = sorted({host for volume in volumes for host in facts.hosts_of(volume)})
    exist = await asyncio.gather(*(_host_exists(api, host) for host in hosts))
    gone = {host for host, there in zip(hosts, exist, strict=True) if not there}
    return {each["metadata"]["name"]: facts.volume_facts(each, gone) for each in volumes}


async def _host_exists(api: KubeApi, host: str) -> bool:
    """Whether a Node has this name, or this hostname. What can't be read is held to exist."""
    try:
        named = await api.find(paths.NODES, fields=f"metadata.name={host}")
        return bool(named or await api.find(paths.NODES, labels=f"kubernetes.io/hostname={host}"))
    except ApiError:
        return True


async def _mount_failures(api: KubeApi, space: str, pods: list[Object]) -> dict[str, Object]:
    """Pod UID → its latest event about a volume that can't be mounted."""
    waiting = [pod["metadata"]["uid"] for pod in pods if facts.needs_events(pod)]
    path = paths.namespaced("events", space)
    found = await asyncio.gather(
        *(api.find(path, fields=f"involvedObject.uid={uid}") for uid in waiting)
    )
    failures = {}
    for uid, events in zip(waiting, found, strict=True):
        mounts = [event for event in events if event.get("reason") in _MOUNT_FAILURES]
        if mounts:
            failures[uid] = max(mounts, key=lambda event: event.get("lastTimestamp") or "")
    return failures


def _incarnations(
    spec: MetadataQuorumSpec,
    sets: list[Object],
    pods: list[Object],
    claims: list[Object],
    volumes: dict[str, VolumeFacts],
    mounts: dict[str, Object],
) -> tuple[Incarnation, ...]:
    pod_by_name = {pod["metadata"]["name"]: pod for pod in pods}
    claim_by_name = {claim["metadata"]["name"]: claim for claim in claims}
    storage = StorageChoice(spec.storage.size, spec.storage.storage_class_name)
    found = []
    for each in sets:
        meta = each["metadata"]
        notes, labels = meta.get("annotations", {}), meta["labels"]
        name = meta["name"]
        pod = pod_by_name.get(f"{name}-0")
        claim = claim_by_name.get(f"data-{name}-0")
        claim_seen = facts.claim_facts(claim) if claim is not None else None
        bound = claim_seen.volume if claim_seen is not None else None
        created = facts.seconds(meta["creationTimestamp"])
        assert created is not None
        replaces = notes.get(names.ANNOTATION_REPLACES)
        mount = mounts.get(pod["metadata"]["uid"]) if pod is not None else None
        recovery, given_up = facts.recovery_facts(notes.get(names.ANNOTATION_RECOVERY))
        found.append(
            Incarnation(
                node_id=int(labels[names.LABEL_NODE_ID]),
                number=int(labels[names.LABEL_INCARNATION]),
                name=name,
                uid=meta["uid"],
                resource_version=meta["resourceVersion"],
                created_at=created,
                formation=int(labels[names.LABEL_FORMATION]),
                storage=facts.storage_facts(notes.get(names.ANNOTATION_STORAGE), storage),
                replicas=int(each["spec"].get("replicas", 1)),
                uuid=notes.get(names.ANNOTATION_UUID),
                failed=facts.latch_facts(notes.get(names.ANNOTATION_FAILED)),
                stopped=notes.get(names.ANNOTATION_STOPPED),
                replaces=int(replaces) if replaces is not None else None,
                recovery=recovery,
                recovery_given_up=given_up,
                template_hash=notes.get(names.ANNOTATION_TEMPLATE),
                pod=facts.pod_facts(pod, mount) if pod is not None else None,
                claim=claim_seen,
                volume=volumes.get(bound) if bound is not None else None,
            )
        )
    return tuple(sorted(found, key=lambda each: (each.node_id, each.number)))


def _used_numbers(objects: list[Object]) -> dict[int, int]:
    used: dict[int, int] = {}
    for each in objects:
        labels = each["metadata"]["labels"]
        if names.LABEL_NODE_ID in labels and names.LABEL_INCARNATION in labels:
            node_id, number = int(labels[names.LABEL_NODE_ID]), int(labels[names.LABEL_INCARNATION])
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


def with_report(each: Incarnation, report: NodeReport | None) -> Incarnation:
    """The incarnation with what its process said."""
    return replace(each, report=report)
