"""The recording proxy: what passes, what is written down, and what a held call leaves behind."""

import concurrent.futures
import json

import httpx
import pytest

from support.envtest.cluster import ApiServerCluster, wait_for
from support.envtest.http_proxy import Call, Hold, Moment, RecordingProxy

pytestmark = pytest.mark.envtest

_TIMEOUT_S = 10.0


class Caller:
    """A client of one proxy, in a namespace of its own."""

    def __init__(self, cluster: ApiServerCluster, proxy: RecordingProxy) -> None:
        self.cluster = cluster
        self.proxy = proxy
        self.base = f"http://127.0.0.1:{proxy.port}"
        self.maps = f"/api/v1/namespaces/{cluster.new_namespace('proxy')}/configmaps"

    def create(self, name: str) -> int:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        url = self.base + self.maps
        return httpx.post(url, json=body, trust_env=False, timeout=_TIMEOUT_S).status_code

    def names(self) -> set[str]:
        found = {item["metadata"]["name"] for item in self.cluster.list(self.maps)}
        return found - {"kube-root-ca.crt"}

    def hold(self, moment: Moment) -> Hold:
        def creates(call: Call) -> bool:
            return call.method == "POST" and call.path == self.maps

        return self.cluster.run(lambda: self.proxy.hold(creates, moment))

    def reached(self, hold: Hold) -> None:
        self.cluster.wait_inside("a call is held", hold.reached.wait, timeout_s=_TIMEOUT_S)


@pytest.fixture
def caller(cluster: ApiServerCluster) -> Caller:
    return Caller(cluster, cluster.proxy())


def test_proxy_records_mutating_calls_in_order_and_no_reads(caller: Caller) -> None:
    assert [caller.create(name) for name in ("a", "b", "a")] == [201, 201, 409]
    httpx.get(caller.base + caller.maps, trust_env=False).raise_for_status()
    calls = caller.proxy.calls
    assert [call.index for call in calls] == [0, 1, 2]
    assert {(call.method, call.target, call.path) for call in calls} == {("POST", "", caller.maps)}
    assert [json.loads(call.body)["metadata"]["name"] for call in calls] == ["a", "b", "a"]
    assert caller.names() == {"a", "b"}


@pytest.mark.parametrize(("moment", "left"), [(Moment.BEFORE, set()), (Moment.AFTER, {"a"})])
def test_held_call_is_cancelled_with_its_caller(
    caller: Caller, moment: Moment, left: set[str]
) -> None:
    hold = caller.hold(moment)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pending = pool.submit(caller.create, "a")
        caller.reached(hold)
        assert caller.names() == left
        caller.cluster.run(hold.abandon)
        with pytest.raises(httpx.RemoteProtocolError):
            pending.result(_TIMEOUT_S)
    assert caller.names() == left
    assert caller.create("b") == 201, "a hold stopped more than one call"


@pytest.mark.parametrize("moment", list(Moment))
def test_held_call_continues_when_released(caller: Caller, moment: Moment) -> None:
    hold = caller.hold(moment)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pending = pool.submit(caller.create, "a")
        caller.reached(hold)
        assert not pending.done()
        caller.cluster.run(hold.release)
        assert pending.result(_TIMEOUT_S) == 201
    assert hold.call is not None
    assert hold.call.index == 0


def named(event: str) -> str:
    return str(json.loads(event)["object"]["metadata"]["name"])


def test_proxy_forwards_a_watch_event_by_event(caller: Caller) -> None:
    query = {"watch": "1"}
    with (
        httpx.Client(base_url=caller.base, trust_env=False, timeout=_TIMEOUT_S) as client,
        client.stream("GET", caller.maps, params=query) as answer,
    ):
        lines = answer.iter_lines()
        caller.create("a")
        wait_for("the event of a", lambda: named(next(lines)) == "a", timeout_s=_TIMEOUT_S)


def test_proxy_forwards_calls_to_nodes_and_can_reject_them(
    caller: Caller, cluster: ApiServerCluster
) -> None:
    target = f"127.0.0.1:{cluster.proxy().port}"  # any HTTP server will do: here another proxy
    with httpx.Client(proxy=caller.base, trust_env=False, timeout=_TIMEOUT_S) as client:
        url = f"http://{target}{caller.maps}"
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n"}}
        assert client.post(url, json=body).status_code == 201
        assert caller.proxy.calls[-1].target == target
        cluster.run(lambda: caller.proxy.refused.add(target))
        with pytest.raises(httpx.RemoteProtocolError):
            client.post(url, json=body)


def test_proxy_answers_chosen_calls_in_the_place_of_the_api_server(caller: Caller) -> None:
    caller.cluster.run(
        lambda: setattr(caller.proxy, "unavailable", lambda call: b'"refused"' in call.body)
    )
    assert [caller.create(name) for name in ("refused", "a")] == [503, 201]
    assert caller.names() == {"a"}


def test_proxy_can_impersonate_a_service_account(cluster: ApiServerCluster) -> None:
    user = "system:serviceaccount:default:nobody"
    caller = Caller(cluster, cluster.proxy([("Impersonate-User", user)]))
    assert caller.create("a") == 403
