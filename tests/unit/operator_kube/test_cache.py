"""Which reads are answered from copies, which are live, and which waiters a change notifies."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from quorum_operator.desired.names import Owner
from quorum_operator.kube import cache as module
from quorum_operator.kube import paths
from quorum_operator.kube.cache import HOSTS, QUORUMS, SELECTED, VOLUMES, Cache, Kind
from quorum_operator.kube.watch import key_of

Json = dict[str, Any]
OWNER = Owner("q", "n", "uid")
PODS, CLAIMS = SELECTED[1], SELECTED[2]
LIVE: Json = {"metadata": {"name": "live"}}


class Live:
    """The connection to the API server; `requested` are the requests sent to it."""

    def __init__(self) -> None:
        self.requested: list[str] = []

    async def get(self, path: str) -> Json | None:
        self.requested.append(path)
        return LIVE

    async def find(
        self, path: str, *, labels: str | None = None, fields: str | None = None
    ) -> list[Json]:
        self.requested.append(f"{path}?{labels or ''}&{fields or ''}")
        return [LIVE]

    async def names(self, path: str) -> frozenset[str]:
        self.requested.append(path)
        return frozenset({"live"})


class Env:
    """Caches with contents given by the test; all are current by default."""

    def __init__(self, *namespaces: str) -> None:
        self.live = Live()
        self.woken: list[tuple[str, str]] = []
        unused: Any = None
        self.cache = Cache(unused, self.live, namespaces, lambda *place: self.woken.append(place))

    def watch(self, kind: Kind, space: str = "") -> Any:
        return self.cache._watches[kind, space]

    def put(self, kind: Kind, found: Json, space: str = "") -> None:
        """As a watch brings it."""
        found["metadata"].setdefault("resourceVersion", "1")
        self.watch(kind, space)._take_in("MODIFIED", found)

    def drop(self, kind: Kind, found: Json) -> None:
        found["metadata"].setdefault("resourceVersion", "2")
        self.watch(kind)._take_in("DELETED", found)

    def get(self, path: str) -> Json | None:
        return asyncio.run(self.cache.get(path))

    def find(self, path: str, **selectors: str) -> list[str]:
        return [
            each["metadata"]["name"] for each in asyncio.run(self.cache.find(path, **selectors))
        ]


@pytest.fixture(autouse=True)
def current(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Paths of copies that can't be trusted."""
    lost: set[str] = set()
    monkeypatch.setattr(module.Watch, "is_current", lambda watch: watch.collection.path not in lost)
    return lost


def pod(name: str, *, labels: dict[str, str] | None = None, host: str = "h1") -> Json:
    meta = {"name": name, "namespace": "n", "labels": OWNER.labels if labels is None else labels}
    return {"metadata": meta, "spec": {"nodeName": host}}


def node(name: str, *, ready: str = "True", **labels: str) -> Json:
    beat = {"type": "Ready", "status": ready, "lastHeartbeatTime": name}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {"conditions": [beat]},
    }


def volume(name: str, claim: str, host: str) -> Json:
    rule = {"key": "kubernetes.io/hostname", "operator": "In", "values": [host]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}}
    reference = {"namespace": "n", "name": claim}
    return {"metadata": {"name": name}, "spec": {"claimRef": reference, "nodeAffinity": affinity}}


def test_cached_objects_are_served_from_the_cache() -> None:
    env = Env()
    env.put(PODS, pod("q-1-1-0"))
    env.put(PODS, pod("other-1-1-0", labels={**OWNER.labels, "app.kubernetes.io/instance": "o"}))
    path = paths.namespaced("pods", "n")
    assert env.find(path, labels=OWNER.selector) == ["q-1-1-0"]
    assert env.get(f"{path}/q-1-1-0") is not None
    assert env.live.requested == []


def test_object_that_lost_its_label_is_read_by_name() -> None:
    env = Env()
    path = paths.namespaced("pods", "n", "q-1-1-0")
    assert env.get(path) is LIVE
    assert env.live.requested == [path]


def test_missing_object_of_a_fully_watched_collection_is_reported_missing_from_the_cache() -> None:
    env = Env()
    assert env.get(paths.volume("gone")) is None
    assert env.find(paths.NODES, fields="metadata.name=gone") == []
    assert env.live.requested == []


@pytest.mark.parametrize(
    ("path", "selectors"),
    [
        (paths.namespaced("pods", "n"), {}),
        (paths.namespaced("pods", "n"), {"labels": "app.kubernetes.io/instance=q"}),
        (paths.namespaced("pods", "n"), {"labels": f"{OWNER.selector},tier!=x"}),
        (paths.namespaced("pods", "n"), {"labels": f"{OWNER.selector},tier in (a)"}),
        (paths.namespaced("pods", "n"), {"labels": OWNER.selector, "fields": "spec.nodeName=h"}),
        (paths.namespaced("events", "n"), {"fields": "involvedObject.uid=u"}),
    ],
)
def test_missing_object_of_a_partly_watched_collection_is_read_live(
    path: str, selectors: dict[str, str]
) -> None:
    env = Env()
    env.put(PODS, pod("q-1-1-0"))
    assert env.find(path, **selectors) == ["live"]


@pytest.mark.parametrize("path", [paths.namespaced("secrets", "n", "s"), paths.DEFINITION])
def test_unwatched_kinds_are_read_live(path: str) -> None:
    assert Env().get(path) is LIVE


def test_nodes_are_found_by_name_by_label_value_and_by_label_existence() -> None:
    env = Env()
    env.put(HOSTS, node("h1", zone="a"))
    env.put(HOSTS, node("h2"))
    assert env.find(paths.NODES, fields="metadata.name=h2") == ["h2"]
    assert env.find(paths.NODES, labels="zone=a") == ["h1"]
    assert env.find(paths.NODES, labels="zone") == ["h1"]
    assert env.find(paths.NODES, labels="zone=b") == []
    assert env.live.requested == []


@pytest.mark.requirement("OP-03")
def test_stale_cache_serves_no_read(current: set[str]) -> None:
    env = Env()
    env.put(PODS, pod("q-1-1-0"))
    current.add("/api/v1/pods")
    assert env.find(paths.namespaced("pods", "n"), labels=OWNER.selector) == ["live"]
    assert env.get(paths.namespaced("pods", "n", "q-1-1-0")) is LIVE


def test_named_namespaces_each_have_a_cache_and_no_other_namespace_is_watched() -> None:
    env = Env("n", "m")
    env.put(PODS, pod("q-1-1-0"), "n")
    assert env.find(paths.namespaced("pods", "n"), labels=OWNER.selector) == ["q-1-1-0"]
    assert env.find(paths.namespaced("pods", "m"), labels=OWNER.selector) == []
    assert env.live.requested == []
    assert env.find(paths.namespaced("pods", "x"), labels=OWNER.selector) == ["live"]
    watched = {watch.collection.path for watch in env.cache._watches.values()}
    assert "/api/v1/namespaces/n/pods" in watched
    assert "/api/v1/pods" not in watched
    assert paths.NODES in watched


def test_watches_are_filtered_by_the_api_server() -> None:
    for (kind, _), watch in Env().cache._watches.items():
        selected = watch.collection.labels == "app.kubernetes.io/name=metadataquorum"
        assert selected == (kind in SELECTED), kind


@contextmanager
def wakes(env: Env, *expected: str) -> Iterator[None]:
    env.woken.clear()
    yield
    assert set(env.woken) == {("n", name) for name in expected}


def test_change_triggers_only_the_affected_reconciles() -> None:
    env = Env()
    with wakes(env, "q"):
        env.put(PODS, pod("q-1-1-0"))
    claim = {"metadata": {"name": "data-q-1-1-0", "namespace": "n", "labels": OWNER.labels}}
    with wakes(env, "q"):
        env.put(CLAIMS, claim)
    with wakes(env, "q"):
        env.put(VOLUMES, volume("pv1", "data-q-1-1-0", "h1"))
    with wakes(env, "r-2"):
        env.put(VOLUMES, volume("pv2", "data-r-2-3-4-0", "h2"))
    with wakes(env):
        env.put(VOLUMES, volume("pv3", "somebody-elses", "h1"))
    with wakes(env, "q"):
        env.drop(PODS, pod("q-1-1-0", labels={}))


def test_node_change_triggers_the_quorums_with_objects_on_it() -> None:
    env = Env()
    env.put(PODS, pod("q-1-1-0", host="h1"))
    env.put(VOLUMES, volume("pv2", "data-r-1-1-0", "host-two"))
    with wakes(env, "q"):
        env.put(HOSTS, node("h1"))
    with wakes(env, "r"):
        env.put(HOSTS, node("h2", **{"kubernetes.io/hostname": "host-two"}))
    with wakes(env):
        env.put(HOSTS, node("h3"))
    beat = node("h1")
    beat["status"]["conditions"][0]["lastHeartbeatTime"] = "later"
    with wakes(env):
        env.put(HOSTS, beat)
    with wakes(env, "q"):
        env.put(HOSTS, node("h1", ready="Unknown"))
    with wakes(env, "r"):
        env.drop(HOSTS, node("h2", **{"kubernetes.io/hostname": "host-two"}))


def test_spec_change_triggers_a_reconcile_and_a_status_write_by_the_operator_does_not() -> None:
    env = Env()
    meta = {"name": "q", "namespace": "n", "uid": "u", "generation": 1}
    env.put(QUORUMS, {"metadata": dict(meta)})
    with wakes(env):
        env.put(
            QUORUMS, {"metadata": {**meta, "resourceVersion": "2"}, "status": {"phase": "Ready"}}
        )
    with wakes(env, "q"):
        env.put(QUORUMS, {"metadata": {**meta, "generation": 2}})


def test_only_the_evaluated_fields_of_a_node_are_cached() -> None:
    env = Env()
    found = node("h1")
    found["status"]["images"] = [{"names": ["x" * 1000]}] * 50
    env.put(HOSTS, found)
    kept = env.watch(HOSTS).objects[key_of(found)]
    assert "images" not in kept["status"]
    assert kept["status"]["conditions"][0]["status"] == "True"
