"""Finds the objects of a quorum in a namespace, by name and owner.

Labels can be edited by anyone, and Kubernetes removes a pod's owner together with a label of its selector. So labels
are used only for the first, fast search; expected objects that are missing there are read by name. A `wide` search
lists the names of all objects of the namespace.

A StatefulSet belongs to the quorum if the resource owns it. A pod belongs to it if its process is that member's and no
other controller owns it, because arguments of a running container are immutable. A claim belongs to the StatefulSet in
its name.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from quorum_operator.crd import KIND
from quorum_operator.desired.names import (
    ANNOTATION_CLUSTER_ID,
    ANNOTATION_REMOVED,
    ANNOTATION_RESOURCE_UID,
    LABEL_FORMATION,
    LABEL_QUORUM,
    Owner,
)
from quorum_operator.kube import paths
from quorum_operator.kube.facts import overrides_of
from quorum_operator.planner.object_facts import ForeignObject
from quorum_operator.quantity import whole_number

Object = dict[str, Any]
MemberId = tuple[int, int]
"""Node id and incarnation."""


class Reads(Protocol):
    """Interface for reads, implemented by `client.KubeApi` (API server) and by the cache."""

    async def get(self, path: str) -> Object | None:
        """Read one object; None if it does not exist."""

    async def find(
        self, path: str, *, labels: str | None = None, fields: str | None = None
    ) -> list[Object]:
        """Read all matching objects of a collection."""


class WideReads(Reads, Protocol):
    """Reads that can search a whole namespace."""

    async def names(self, path: str) -> frozenset[str]:
        """Names of all objects of a collection, always read from the API server."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The objects of one quorum, by node id and incarnation.

    `pods` and `claims` include those without a StatefulSet. `taken`: names used by any object, including those of
    other owners. `unlabelled`: objects found only by a wide search, for the next search.
    """

    identities: dict[int, Object]
    sets: dict[MemberId, Object]
    pods: dict[MemberId, Object]
    claims: dict[MemberId, Object]
    foreign: tuple[ForeignObject, ...]
    taken: frozenset[MemberId]
    unlabelled: frozenset[MemberId]


@dataclass(frozen=True, slots=True)
class Search:
    """What one search reads, in addition to the objects with the labels of the quorum."""

    known: frozenset[MemberId] = frozenset()
    """Members whose objects are always read by name."""
    with_pod: frozenset[MemberId] = frozenset()
    """Members that had a pod in the last status. Their pods are read by name, also those of stopped members."""
    wide: bool = False
    """Whether to list the names of all objects of the namespace."""
    older_claims: bool = True
    """Whether to list claims with labels of the previous version, as a wide search always does."""


async def find_parts(api: WideReads, owner: Owner, search: Search) -> Parts:
    """Find the objects of a quorum. Raises ApiError."""
    wide, known = search.wide, search.known

    def listing(plural: str, selector: str = owner.selector) -> Any:
        return api.find(paths.namespaced(plural, owner.namespace), labels=selector)

    maps, sets, pods, claims, older, named = await asyncio.gather(
        listing("configmaps"),
        listing("statefulsets"),
        listing("pods"),
        listing("persistentvolumeclaims", owner.claim_selector),
        listing("persistentvolumeclaims") if search.older_claims and not wide else _nothing(),
        _all_names(api, owner.namespace) if wide else _no_names(),
    )
    seen = _Seen(owner)
    seen.take("StatefulSet", sets)
    seen.take("Pod", pods)
    seen.take("PersistentVolumeClaim", [*older, *claims])
    await asyncio.gather(*(seen.read_named(api, kind, named[plural]) for kind, plural in _FOUND))
    await seen.read(api, "StatefulSet", seen.without_set() | known)
    await asyncio.gather(
        # Without its labels nobody ends the pod of a stopped member.
        seen.read(api, "Pod", seen.without_pod() | (known - seen.sets.keys()) | search.with_pod),
        seen.read(api, "PersistentVolumeClaim", seen.without_claim() | known),
    )
    formed = {index for each in named["configmaps"] if (index := owner.parse_identity(each))}
    identities = await _identities(api, owner, maps, seen.formations() | formed)
    return seen.parts(identities, wide=wide)


async def _all_names(api: WideReads, space: str) -> dict[str, frozenset[str]]:
    """All names in the namespace, by plural of the kind."""
    found = await asyncio.gather(*(api.names(paths.namespaced(each, space)) for each in _SEARCHED))
    return dict(zip(_SEARCHED, found, strict=True))


async def _no_names() -> dict[str, frozenset[str]]:
    return dict.fromkeys(_SEARCHED, frozenset())


async def _nothing() -> list[Object]:
    return []


class _Seen:
    """Objects found so far, by kind and member."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._found: dict[str, dict[MemberId, Object]] = {kind: {} for kind in _PLURALS}

    @property
    def sets(self) -> dict[MemberId, Object]:
        """StatefulSets of this quorum."""
        all_sets = self._found["StatefulSet"]
        return {
            member_id: each for member_id, each in all_sets.items() if is_owned(each, self._owner)
        }

    def take(self, kind: str, objects: Iterable[Object]) -> None:
        for each in objects:
            member_id = _member_id(self._owner, kind, each["metadata"]["name"])
            if member_id is not None:
                self._found[kind][member_id] = each

    async def read(self, api: Reads, kind: str, member_ids: Iterable[MemberId]) -> None:
        """Read objects that no list contains, by name."""
        missing = sorted(set(member_ids) - self._found[kind].keys())
        space, plural = self._owner.namespace, _PLURALS[kind]
        found = await asyncio.gather(
            *(
                api.get(paths.namespaced(plural, space, _name(self._owner, kind, member_id)))
                for member_id in missing
            )
        )
        self.take(kind, [each for each in found if each is not None])

    async def read_named(self, api: Reads, kind: str, names: Iterable[str]) -> None:
        """Read objects of this quorum that no list contains, from all names of a namespace."""
        member_ids = (_member_id(self._owner, kind, each) for each in names)
        await self.read(api, kind, {each for each in member_ids if each is not None})

    def without_set(self) -> set[MemberId]:
        """Members that should have a StatefulSet: those with a pod, and those with the newest claim of a node id. Older claims
        and removed members intentionally have none.
        """
        newest: dict[int, int] = {}
        for node_id, number in self._found["PersistentVolumeClaim"]:
            newest[node_id] = max(newest.get(node_id, 0), number)
        remaining = {member_id for member_id in newest.items() if not self._has_left(member_id)}
        return self._found["Pod"].keys() | remaining

    def _has_left(self, member_id: MemberId) -> bool:
        claim = self._found["PersistentVolumeClaim"][member_id]
        return ANNOTATION_REMOVED in (claim["metadata"].get("annotations") or {})

    def without_pod(self) -> set[MemberId]:
        return {
            member_id
            for member_id, each in self.sets.items()
            if each["spec"].get("replicas", 1) > 0
        }

    def without_claim(self) -> set[MemberId]:
        return set(self.sets)

    def formations(self) -> set[int]:
        return {found for each in self.sets.values() if (found := formation_of(each)) is not None}

    def parts(self, identities: dict[int, Object], *, wide: bool) -> Parts:
        owner = self._owner
        sets = self.sets
        others = self._found["StatefulSet"].keys() - sets.keys()
        pods = self._found["Pod"]
        ours = {
            member_id: pod for member_id, pod in pods.items() if _is_members(pod, owner, member_id)
        }
        foreign = [
            *(
                ("StatefulSet", self._found["StatefulSet"][member_id])
                for member_id in sorted(others)
            ),
            *(("Pod", pods[member_id]) for member_id in sorted(pods.keys() - ours.keys() - others)),
            *(("ConfigMap", each) for each in identities.values() if not is_owned(each, owner)),
        ]
        taken: set[MemberId] = set().union(*self._found.values())
        labelled = {kind: owner.labels.items() for kind in _PLURALS}
        labelled["PersistentVolumeClaim"] = {LABEL_QUORUM: owner.name}.items()
        return Parts(
            identities={i: each for i, each in identities.items() if is_owned(each, owner)},
            sets=sets,
            pods={member_id: pod for member_id, pod in ours.items() if member_id not in others},
            claims=dict(self._found["PersistentVolumeClaim"]),
            foreign=tuple(_foreign(kind, each) for kind, each in foreign),
            taken=frozenset(taken),
            unlabelled=frozenset(
                member_id
                for kind, found in self._found.items()
                for member_id, each in found.items()
                if wide and not labelled[kind] <= (each["metadata"].get("labels") or {}).items()
            ),
        )


_PLURALS = {"StatefulSet": "statefulsets", "Pod": "pods"}
_PLURALS["PersistentVolumeClaim"] = "persistentvolumeclaims"
_FOUND = tuple(_PLURALS.items())
_SEARCHED = (*_PLURALS.values(), "configmaps")


def _member_id(owner: Owner, kind: str, name: str) -> MemberId | None:
    match kind:
        case "Pod":
            return owner.parse_pod(name)
        case "PersistentVolumeClaim":
            return owner.parse_claim(name)
        case _:
            return owner.parse_member(name)


def _name(owner: Owner, kind: str, member_id: MemberId) -> str:
    member = owner.member(*member_id)
    return {"Pod": owner.pod(member), "PersistentVolumeClaim": owner.claim(member)}.get(
        kind, member
    )


async def _identities(
    api: Reads, owner: Owner, maps: list[Object], formations: set[int]
) -> dict[int, Object]:
    """All identities by index. Those not found by label are read by name: of every formation with members, or from the
    first one on.
    """
    found = {
        index: each
        for each in maps
        if (index := owner.parse_identity(each["metadata"]["name"])) is not None
    }

    async def read(index: int) -> bool:
        each = await api.get(paths.namespaced("configmaps", owner.namespace, owner.identity(index)))
        if each is not None:
            found[index] = each
        return each is not None

    await asyncio.gather(*(read(index) for index in sorted(formations - found.keys())))
    if not found:
        index = 1
        while await read(index):
            index += 1
    return found


def without_identities(parts: Parts, unknown: frozenset[int]) -> Parts:
    """Move the identities in `unknown` to the foreign objects, because their formations never existed."""
    kept = {index: each for index, each in parts.identities.items() if index not in unknown}
    foreign = (_foreign("ConfigMap", parts.identities[index]) for index in sorted(unknown))
    return replace(parts, identities=kept, foreign=(*parts.foreign, *foreign))


def is_owned(found: Object, owner: Owner) -> bool:
    """Whether this resource owns it; an earlier resource of the same name does not count."""
    references = found["metadata"].get("ownerReferences") or []
    return any(reference.get("uid") == owner.uid for reference in references)


def created_with(found: Object) -> dict[str, str]:
    """Annotations of a StatefulSet's claim template, which is immutable."""
    for each in found["spec"].get("volumeClaimTemplates") or []:
        notes: dict[str, str] = (each.get("metadata") or {}).get("annotations") or {}
        return notes
    return {}


def cluster_id_of(found: Object) -> str | None:
    """Cluster id of a StatefulSet: from its immutable claim template, else from the arguments in its template."""
    return created_with(found).get(ANNOTATION_CLUSTER_ID) or overrides_of(found).get("cluster.id")


def formation_of(found: Object) -> int | None:
    """Formation of a StatefulSet: from its immutable claim template, else from its label."""
    spec = found["spec"]
    sources = [*(spec.get("volumeClaimTemplates") or []), found, spec.get("template") or {}]
    for each in sources:
        text = ((each.get("metadata") or {}).get("labels") or {}).get(LABEL_FORMATION, "")
        number = whole_number(text)
        if number is not None:
            return number
    return None


def _is_members(pod: Object, owner: Owner, member_id: MemberId) -> bool:
    """Whether it is the pod of this member; its StatefulSet may have been deleted."""
    controller = _controller(pod)
    if controller is not None:
        of_set = controller.get("kind") == "StatefulSet"
        return of_set and controller.get("name") == owner.member(*member_id)
    advertised = f"//{owner.host(owner.member(*member_id))}:"
    return any(
        advertised in argument
        for container in pod["spec"].get("containers", [])
        for argument in container.get("args") or []
    )


def _controller(found: Object) -> Object | None:
    references: list[Object] = found["metadata"].get("ownerReferences") or []
    return next((each for each in references if each.get("controller")), None)


def _foreign(kind: str, found: Object) -> ForeignObject:
    references: list[Object] = found["metadata"].get("ownerReferences") or []
    owners = ", ".join(f"{each.get('kind')}/{each.get('name')}" for each in references)
    meta = found["metadata"]
    cluster_id = created_for = None
    if kind == "ConfigMap":
        cluster_id = (found.get("data") or {}).get("clusterId")
    elif kind == "StatefulSet":
        cluster_id = cluster_id_of(found)
        created_for = created_with(found).get(ANNOTATION_RESOURCE_UID)
    kinds = {each.get("kind") for each in references}
    return ForeignObject(
        kind,
        meta["name"],
        owners,
        meta.get("uid", ""),
        meta.get("resourceVersion", ""),
        cluster_id,
        given_away=bool(kinds) and KIND not in kinds,
        created_for=created_for,
    )
