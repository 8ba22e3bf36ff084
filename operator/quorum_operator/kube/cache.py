"""A cache for the reconciles of all quorums, filled by watches with label selectors.

Owns the list of watched collections, and which reads the cache can answer. It has the interface of `client.KubeApi`:
reads that it can't answer reliably go to the API server. Since an object may have lost its label, an object that is
absent from the cache is not necessarily missing. No step may be based on the cache: before a change everything is
read from the API server.
"""

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from quorum_operator.crd import GROUP, PLURAL, VERSION
from quorum_operator.desired.names import (
    APP,
    LABEL_INSTANCE,
    LABEL_NAME,
    LABEL_QUORUM,
    annotated_requests,
)
from quorum_operator.kube import facts
from quorum_operator.kube.client import KubeApi
from quorum_operator.kube.copies import Key
from quorum_operator.kube.finding import WideReads
from quorum_operator.kube.watch import Collection, Watch, key_of, without_managed_fields

Object = dict[str, Any]
Wake = Callable[[str, str], None]
"""Called with namespace and name of a quorum whose objects changed."""


class Kind(NamedTuple):
    """API path of a kind; `name` is its plural."""

    base: str
    name: str


OURS = f"{LABEL_NAME}={APP}"
SELECTED = (
    Kind("/apis/apps/v1", "statefulsets"),
    Kind("/api/v1", "pods"),
    Kind("/api/v1", "persistentvolumeclaims"),
    Kind("/api/v1", "configmaps"),
    Kind("/api/v1", "services"),
    Kind("/apis/policy/v1", "poddisruptionbudgets"),
    Kind("/apis/networking.k8s.io/v1", "networkpolicies"),
)
"""Kinds of which only objects with the operator's label are watched."""
QUORUMS = Kind(f"/apis/{GROUP}/{VERSION}", PLURAL)
VOLUMES = Kind("/api/v1", "persistentvolumes")
HOSTS = Kind("/api/v1", "nodes")
CLASSES = Kind("/apis/storage.k8s.io/v1", "storageclasses")
SHARED = (VOLUMES, HOSTS, CLASSES)
"""Cluster-scoped kinds, watched completely."""

_PATH = re.compile(r"(/api/v1|/apis/[^/]+/[^/]+)(?:/namespaces/([^/]+))?/([a-z]+)(?:/([^/]+))?")
_OTHER = re.compile(r"[^A-Za-z0-9./_-]")
"""Characters that no label name contains; they mark other kinds of selectors."""
_CLAIM = re.compile(r"data-(.+)-\d+-\d+-0")


class Cache:
    """Cached objects of `namespaces`, or of the whole cluster.

    `wake` is called for the affected quorum. `watching`: the client for the watches, with one connection each. `live`:
    the client for reads that the cache can't answer.
    """

    def __init__(
        self, watching: KubeApi, live: WideReads, namespaces: tuple[str, ...], wake: Wake
    ) -> None:
        self._watching, self._live, self._wake = watching, live, wake
        self._watches: dict[tuple[Kind, str], Watch] = {}
        self._namespaces = namespaces
        for kind in (*SELECTED, QUORUMS):
            for space in namespaces or ("",):
                self._add(kind, space)
        for kind in SHARED:
            self._add(kind, "")
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start all watches."""
        for (kind, space), watch in self._watches.items():
            task = asyncio.create_task(watch.run(), name=f"watch {space}/{kind.name}")
            self._tasks.append(task)

    async def stop(self) -> None:
        """End all watches."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def get(self, path: str) -> Object | None:
        """Read one object; from the API server unless the cache can answer reliably."""
        kind, space, name = _parsed(path)
        watch = self._current(kind, space)
        if watch is not None and name:
            found = watch.objects.get((space, name))
            if found is not None or watch.collection.labels is None:
                return found
        return await self._live.get(path)

    async def find(
        self, path: str, *, labels: str | None = None, fields: str | None = None
    ) -> list[Object]:
        """Find all matching objects; from the API server unless the cache contains all that could match."""
        kind, space, name = _parsed(path)
        watch = self._current(kind, space)
        wanted, field = _terms(labels), _terms(fields)
        answerable = field is not None and field.keys() <= {"metadata.name"} and not name
        if watch is None or wanted is None or field is None or not answerable:
            return await self._live.find(path, labels=labels, fields=fields)
        selected = _terms(watch.collection.labels) or {}
        if not selected.items() <= wanted.items():
            return await self._live.find(path, labels=labels, fields=fields)
        if (only := field.get("metadata.name")) is not None:
            one = watch.objects.get((space, only))
            return [one] if one is not None and _match(wanted, _labels(one)) else []
        candidates = watch.copies.matching(wanted)
        return [
            each
            for each in candidates
            if space in {"", key_of(each)[0]} and _match(wanted, _labels(each))
        ]

    async def names(self, path: str) -> frozenset[str]:
        """List names from the API server, because a search covers objects without labels."""
        return await self._live.names(path)

    def lists(self) -> int:
        """Number of lists read so far."""
        return sum(watch.lists for watch in self._watches.values())

    def _add(self, kind: Kind, space: str) -> None:
        inner = f"/namespaces/{space}" if space else ""
        labels = OURS if kind in SELECTED else None
        collection = Collection(f"{kind.base}{inner}/{kind.name}", labels)

        def changed(old: Object | None, new: Object | None) -> None:
            for each in self._concerned(kind, old, new):
                self._wake(*each)

        keep = _host if kind == HOSTS else without_managed_fields
        indexed = (LABEL_INSTANCE, LABEL_QUORUM) if kind in SELECTED else ()
        self._watches[kind, space] = Watch(self._watching, collection, changed, keep, indexed)

    def _current(self, kind: Kind | None, space: str) -> Watch | None:
        """The watch for this namespace, if it is current."""
        if kind is None:
            return None
        watched = "" if kind in SHARED or not self._namespaces else space
        watch = self._watches.get((kind, watched))
        return watch if watch is not None and watch.is_current() else None

    def _concerned(self, kind: Kind, old: Object | None, new: Object | None) -> set[Key]:
        """The quorums affected by a change, as namespace and name."""
        objects = [each for each in (old, new) if each is not None]
        if kind in SELECTED:
            return {each for found in objects for each in _owners(found)}
        if kind == VOLUMES:
            return {each for found in objects for each in self._bound(found)}
        if kind == HOSTS and (old is None or new is None or _state(old) != _state(new)):
            return {quorum for each in objects for quorum in self._on_host(each)}
        if kind == QUORUMS and (old is None or new is None or _wanted(old) != _wanted(new)):
            return {key_of(each) for each in objects}
        return set()

    def _bound(self, volume: Object) -> Iterator[Key]:
        """Quorums whose claim a volume is bound to, also by name in case a label is missing."""
        claim = (volume.get("spec") or {}).get("claimRef") or {}
        space, name = claim.get("namespace", ""), claim.get("name", "")
        watch = self._current(Kind("/api/v1", "persistentvolumeclaims"), space)
        found = watch.objects.get((space, name)) if watch is not None else None
        if found is not None:
            yield from _owners(found)
        elif matched := _CLAIM.fullmatch(name):
            yield space, matched[1]

    def _on_host(self, host: Object) -> Iterator[Key]:
        """Quorums with pods on a Node or with volumes local to it."""
        name, labels = host["metadata"]["name"], _labels(host).items()
        for (kind, _), watch in self._watches.items():
            for found in watch.objects.values():
                if kind == VOLUMES:
                    if any(t.value == name or (t.key, t.value) in labels for t in _ties(found)):
                        yield from self._bound(found)
                elif kind.name == "pods" and found["spec"].get("nodeName") == name:
                    yield from _owners(found)


def _parsed(path: str) -> tuple[Kind | None, str, str]:
    """Kind, namespace and name of a path; kind None for other paths such as subresources."""
    matched = _PATH.fullmatch(path)
    if matched is None:
        return None, "", ""
    return Kind(matched[1], matched[3]), matched[2] or "", matched[4] or ""


def _terms(selector: str | None) -> dict[str, str | None] | None:
    """Terms of a selector with only equality and existence (value None) requirements; None for any other selector."""
    terms: dict[str, str | None] = {}
    for term in (selector or "").split(","):
        name, equals, value = term.partition("=")
        if not term:
            continue
        if value.startswith("=") or _OTHER.search(name):
            return None
        terms[name] = value if equals else None
    return terms


def _match(terms: dict[str, str | None], labels: dict[str, str]) -> bool:
    return all(name in labels and value in {None, labels[name]} for name, value in terms.items())


def _labels(found: Object) -> dict[str, str]:
    labels: dict[str, str] = found["metadata"].get("labels") or {}
    return labels


def _owners(found: Object) -> Iterator[Key]:
    """The quorum that an object belongs to, by its label and its name."""
    meta = found["metadata"]
    if (instance := _labels(found).get(LABEL_INSTANCE)) is not None:
        yield meta["namespace"], instance
    if matched := _CLAIM.fullmatch(meta["name"]):
        yield meta["namespace"], matched[1]


def _ties(volume: Object) -> tuple[facts.Tie, ...]:
    return facts.ties_of(volume) if "claimRef" in volume["spec"] else ()


def _wanted(quorum: Object) -> object:
    """The parts of a quorum whose change matters; the status is written by the operator itself."""
    meta = quorum["metadata"]
    state = meta.get("uid"), meta.get("generation"), meta.get("deletionTimestamp")
    return state, annotated_requests(meta)


def _host(found: Object) -> Object:
    """The parts of a Node that show whether it exists and is ready. The rest is large and changes constantly."""
    meta, spec, status = found["metadata"], found.get("spec") or {}, found.get("status") or {}
    kept = ("name", "uid", "resourceVersion", "labels", "creationTimestamp", "deletionTimestamp")
    conditions = [
        {key: each.get(key) for key in ("type", "status", "reason", "lastTransitionTime")}
        for each in status.get("conditions") or []
    ]
    return {
        "metadata": {key: meta[key] for key in kept if key in meta},
        "spec": {key: spec[key] for key in ("unschedulable", "taints") if key in spec},
        "status": {"conditions": conditions},
    }


def _state(host: Object) -> object:
    """The parts of a Node whose change matters; heartbeats don't."""
    conditions = {each["type"]: each["status"] for each in host["status"]["conditions"]}
    return conditions.get("Ready"), host["spec"], "deletionTimestamp" in host["metadata"]
