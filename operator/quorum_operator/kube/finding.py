"""Which objects of a namespace are parts of a quorum: by their names and their owners.

Labels can be edited by anyone, and Kubernetes drops a pod's owner together with a label of its selector. They only
narrow the first look down; what must be there by its name and is missing there is read by its name. A look `wide` at
the names of all objects of the namespace finds what nothing else names any more.

A StatefulSet is ours when the resource owns it. A pod is ours when its process is that member's and nothing else
controls it: arguments of a running container can't be edited. A claim is that of the StatefulSet that its name says.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from quorum_operator.desired.names import ANNOTATION_REMOVED, LABEL_FORMATION, LABEL_QUORUM, Owner
from quorum_operator.kube import paths
from quorum_operator.kube.facts import overrides_of
from quorum_operator.planner.observed import ForeignObject

Object = dict[str, Any]
Place = tuple[int, int]
"""Node id and incarnation."""


class Reads(Protocol):
    """The two ways of reading: `client.KubeApi` reads live; whoever keeps what it has read answers in the same way."""

    async def get(self, path: str) -> Object | None:
        """One object, or None when it does not exist."""

    async def find(
        self, path: str, *, labels: str | None = None, fields: str | None = None
    ) -> list[Object]:
        """All objects of a collection that match."""


class WideReads(Reads, Protocol):
    """Reads that can search a whole namespace."""

    async def names(self, path: str) -> frozenset[str]:
        """Names of all objects of a collection, always read live."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of one quorum, by node id and incarnation.

    `pods` and `claims` include those whose StatefulSet is gone. `taken`: places whose names are used by anything,
    foreign objects included. `unlabelled`: places that only a wide look has found; the next look is to be told.
    """

    identities: dict[int, Object]
    sets: dict[Place, Object]
    pods: dict[Place, Object]
    claims: dict[Place, Object]
    foreign: tuple[ForeignObject, ...]
    taken: frozenset[Place]
    unlabelled: frozenset[Place]


async def find_parts(
    api: WideReads,
    owner: Owner,
    *,
    known: frozenset[Place] = frozenset(),
    wide: bool = False,
    older_claims: bool = True,
) -> Parts:
    """Read them; `known` are places that are looked up by name in any case. `older_claims`: there may be claims with the
    labels of the version before; a wide look finds them in any case."""

    def listing(plural: str, selector: str = owner.selector) -> Any:
        return api.find(paths.namespaced(plural, owner.namespace), labels=selector)

    maps, sets, pods, claims, older, named = await asyncio.gather(
        listing("configmaps"),
        listing("statefulsets"),
        listing("pods"),
        listing("persistentvolumeclaims", owner.claim_selector),
        listing("persistentvolumeclaims") if older_claims and not wide else _nothing(),
        _all_names(api, owner.namespace) if wide else _no_names(),
    )
    seen = _Seen(owner)
    seen.take("StatefulSet", sets)
    seen.take("Pod", pods)
    seen.take("PersistentVolumeClaim", [*older, *claims])
    await asyncio.gather(*(seen.read_named(api, kind, named[plural]) for kind, plural in _FOUND))
    await seen.read(api, "StatefulSet", seen.without_set() | known)
    await asyncio.gather(
        seen.read(api, "Pod", seen.without_pod() | (known - seen.sets.keys())),
        seen.read(api, "PersistentVolumeClaim", seen.without_claim() | known),
    )
    formed = {index for each in named["configmaps"] if (index := owner.parse_identity(each))}
    identities = await _identities(api, owner, maps, seen.formations() | formed)
    return seen.parts(identities, wide=wide)


async def _all_names(api: WideReads, space: str) -> dict[str, frozenset[str]]:
    """By plural."""
    found = await asyncio.gather(*(api.names(paths.namespaced(each, space)) for each in _SEARCHED))
    return dict(zip(_SEARCHED, found, strict=True))


async def _no_names() -> dict[str, frozenset[str]]:
    return dict.fromkeys(_SEARCHED, frozenset())


async def _nothing() -> list[Object]:
    return []


class _Seen:
    """Objects by kind and place, while they are gathered."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._found: dict[str, dict[Place, Object]] = {kind: {} for kind in _PLURALS}

    @property
    def sets(self) -> dict[Place, Object]:
        """Of this quorum."""
        all_sets = self._found["StatefulSet"]
        return {place: each for place, each in all_sets.items() if is_owned(each, self._owner)}

    def take(self, kind: str, objects: Iterable[Object]) -> None:
        for each in objects:
            place = _place(self._owner, kind, each["metadata"]["name"])
            if place is not None:
                self._found[kind][place] = each

    async def read(self, api: Reads, kind: str, places: Iterable[Place]) -> None:
        """Those that no list has shown, by their names."""
        missing = sorted(set(places) - self._found[kind].keys())
        space, plural = self._owner.namespace, _PLURALS[kind]
        found = await asyncio.gather(
            *(
                api.get(paths.namespaced(plural, space, _name(self._owner, kind, place)))
                for place in missing
            )
        )
        self.take(kind, [each for each in found if each is not None])

    async def read_named(self, api: Reads, kind: str, names: Iterable[str]) -> None:
        """Those of this quorum that no list has shown, of all names of a namespace."""
        places = (_place(self._owner, kind, each) for each in names)
        await self.read(api, kind, {each for each in places if each is not None})

    def without_set(self) -> set[Place]:
        """Pods, and each member's newest claim: of an older one, and of a member that left, the set is meant to be gone."""
        newest: dict[int, int] = {}
        for node_id, number in self._found["PersistentVolumeClaim"]:
            newest[node_id] = max(newest.get(node_id, 0), number)
        there = {place for place in newest.items() if not self._has_left(place)}
        return self._found["Pod"].keys() | there

    def _has_left(self, place: Place) -> bool:
        claim = self._found["PersistentVolumeClaim"][place]
        return ANNOTATION_REMOVED in (claim["metadata"].get("annotations") or {})

    def without_pod(self) -> set[Place]:
        return {place for place, each in self.sets.items() if each["spec"].get("replicas", 1) > 0}

    def without_claim(self) -> set[Place]:
        return set(self.sets)

    def formations(self) -> set[int]:
        return {found for each in self.sets.values() if (found := formation_of(each)) is not None}

    def parts(self, identities: dict[int, Object], *, wide: bool) -> Parts:
        owner = self._owner
        sets = self.sets
        others = self._found["StatefulSet"].keys() - sets.keys()
        pods = self._found["Pod"]
        ours = {place: pod for place, pod in pods.items() if _is_members(pod, owner, place)}
        foreign = [
            *(("StatefulSet", self._found["StatefulSet"][place]) for place in sorted(others)),
            *(("Pod", pods[place]) for place in sorted(pods.keys() - ours.keys() - others)),
            *(("ConfigMap", each) for each in identities.values() if not is_owned(each, owner)),
        ]
        taken: set[Place] = set().union(*self._found.values())
        labelled = {kind: owner.labels.items() for kind in _PLURALS}
        labelled["PersistentVolumeClaim"] = {LABEL_QUORUM: owner.name}.items()
        return Parts(
            identities={i: each for i, each in identities.items() if is_owned(each, owner)},
            sets=sets,
            pods={place: pod for place, pod in ours.items() if place not in others},
            claims=dict(self._found["PersistentVolumeClaim"]),
            foreign=tuple(_foreign(kind, each) for kind, each in foreign),
            taken=frozenset(taken),
            unlabelled=frozenset(
                place
                for kind, found in self._found.items()
                for place, each in found.items()
                if wide and not labelled[kind] <= (each["metadata"].get("labels") or {}).items()
            ),
        )


_PLURALS = {"StatefulSet": "statefulsets", "Pod": "pods"}
_PLURALS["PersistentVolumeClaim"] = "persistentvolumeclaims"
_FOUND = tuple(_PLURALS.items())
_SEARCHED = (*_PLURALS.values(), "configmaps")


def _place(owner: Owner, kind: str, name: str) -> Place | None:
    match kind:
        case "Pod":
            return owner.parse_pod(name)
        case "PersistentVolumeClaim":
            return owner.parse_claim(name)
        case _:
            return owner.parse_member(name)


def _name(owner: Owner, kind: str, place: Place) -> str:
    member = owner.member(*place)
    return {"Pod": owner.pod(member), "PersistentVolumeClaim": owner.claim(member)}.get(
        kind, member
    )


async def _identities(
    api: Reads, owner: Owner, maps: list[Object], formations: set[int]
) -> dict[int, Object]:
    """Also those that no list has shown: of every formation that has members, or from the first one on."""
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


def is_owned(found: Object, owner: Owner) -> bool:
    """Whether this very resource owns it; what belongs to an earlier one of its name is not ours."""
    references = found["metadata"].get("ownerReferences") or []
    return any(reference.get("uid") == owner.uid for reference in references)


def formation_of(found: Object) -> int | None:
    """Of a StatefulSet: from the template of its claim, which can't be edited, else from its label."""
    spec = found["spec"]
    sources = [*(spec.get("volumeClaimTemplates") or []), found, spec.get("template") or {}]
    for each in sources:
        text = ((each.get("metadata") or {}).get("labels") or {}).get(LABEL_FORMATION, "")
        if text.isdigit():
            return int(text)
    return None


def _is_members(pod: Object, owner: Owner, place: Place) -> bool:
    """Whether it is the pod of a member's StatefulSet, be it one of that name that is gone."""
    controller = _controller(pod)
    if controller is not None:
        of_set = controller.get("kind") == "StatefulSet"
        return of_set and controller.get("name") == owner.member(*place)
    advertised = f"//{owner.host(owner.member(*place))}:"
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
    cluster_id = None
    if kind == "ConfigMap":
        cluster_id = (found.get("data") or {}).get("clusterId")
    elif kind == "StatefulSet":
        cluster_id = overrides_of(found).get("cluster.id")
    version = meta.get("resourceVersion", "")
    return ForeignObject(kind, meta["name"], owners, meta.get("uid", ""), version, cluster_id)
