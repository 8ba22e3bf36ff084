"""A real Prometheus answers the dashboard's queries over a run with a dead disk and a killed leader."""

import json
import re
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import httpx
import pytest

from support import chart
from support.dashboard_plots import draw
from support.envtest.environment import Env
from support.envtest.http_proxy import Call
from support.envtest.kube_api import Json
from support.envtest.prometheus import Prometheus
from support.envtest.quorum import MOVE_TIMEOUT_S, ApiServerQuorum
from support.kind_env.waiting import wait_for
from support.ports import free_ports

pytestmark = [pytest.mark.envtest, pytest.mark.long]

_DASHBOARD = chart.CHART / "monitoring" / "dashboard.json"
_LABEL_VALUES = re.compile(r"label_values\((.+), (\w+)\)")


def fail_one_reconcile(env: Env, quorum: ApiServerQuorum) -> None:
    """The API server answers 503 to the read that follows a change of the spec."""
    failed: list[Call] = []

    def refuses(call: Call) -> bool:
        # Not quorum.path: the operator reads another version of the API.
        read = call.method == "GET" and call.path.endswith(f"/metadataquorums/{quorum.name}")
        if not read or failed:
            return False
        failed.append(call)
        return True

    (proxy,) = env.proxies
    env.cluster.run(lambda: setattr(proxy, "unavailable", refuses))
    quorum.patch({"repair": {"debounceSeconds": 3}})
    wait_for("a call is refused", lambda: failed, timeout_s=30)


def operator_metrics(port: int) -> str:
    """What Prometheus gets from the operator."""
    return httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text


def offered(prometheus: Prometheus, document: Json, begun: float) -> dict[str, set[str]]:
    """What each variable of the dashboard lets the user choose from."""
    found = {}
    for variable in document["templating"]["list"]:
        if variable["type"] == "query":
            asked = _LABEL_VALUES.fullmatch(variable["definition"])
            assert asked is not None, variable
            selector, label = asked.groups()
            selector = selector.replace("$namespace", ".*")
            found[variable["name"]] = prometheus.values_of(label, selector, begun)
    return found


def disturb(quorum: ApiServerQuorum, prometheus: Prometheus) -> None:
    """A disk dies and is replaced, then the leader is killed."""
    failed = quorum.fail_disk(quorum.voter(leader=False, described=quorum.wait_ready(3)))
    quorum.wait_replaced(failed, 3)
    prometheus.scrape(quorum)
    leader = quorum.wait_ready(3)
    quorum.send(quorum.pod_of(leader.leader_id, leader.leader_uuid), signal.SIGKILL)
    quorum.wait_ready(3, timeout_s=MOVE_TIMEOUT_S)


def check_series_disappear(env: Env, quorum: ApiServerQuorum, port: int) -> None:
    """The quorum is deleted, and the operator's metrics do not name it any more."""
    named = (f'namespace="{quorum.namespace}"', f'name="{quorum.name}"')

    def series() -> list[str]:
        lines = operator_metrics(port).splitlines()
        return [line for line in lines if any(each in line for each in named)]

    assert series()
    env.discard(quorum)
    wait_for("no series of it", lambda: not series(), timeout_s=15, seen=series)


@pytest.mark.requirement("OP-10")
@pytest.mark.timeout(600)
def test_every_dashboard_query_returns_a_result(
    env: Env, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """No panel may be empty. Also draws them as an image, and deletes the quorum in the end."""
    (port,) = free_ports(1)
    operator, _ = env.add_operator(METADATAQUORUM_OPERATOR_LISTEN=f"127.0.0.1:{port}")
    operator.start()
    quorum = env.create(3, disks=True, tls={"mode": "Managed"})
    prometheus = Prometheus(tmp_path / "prometheus", port)
    begun = time.time()
    with prometheus.running():
        prometheus.scrape(quorum)
        wait_for(
            "members are scraped",
            lambda: prometheus.has("metadata_quorum_leader_id", begun),
            timeout_s=60,
        )
        load = env.start_load(quorum)
        load.wait_for_amount(20, timeout_s=60)
        disturb(quorum, prometheus)
        load.wait_for_acknowledgement(timeout_s=60)
        fail_one_reconcile(env, quorum)
        for query in (
            "metadataquorum_operator_repairs_total == 1",
            # A rate needs two samples.
            "rate(metadataquorum_operator_reconcile_failures_total[5m])",
        ):
            wait_for(f"{query} is scraped", partial(prometheus.has, query, begun), timeout_s=30)

        def samples(expression: str) -> list[Json]:
            query = expression.replace("$namespace", ".*").replace("$quorum", ".*")
            return prometheus.samples(query, begun)

        document = json.loads(_DASHBOARD.read_text())
        panels = document["panels"]
        empty = [
            (panel["title"], target["expr"])
            for panel in panels
            for target in panel.get("targets", [])
            if not samples(target["expr"])
        ]
        assert empty == []
        assert offered(prometheus, document, begun) == {
            "namespace": {quorum.namespace},
            "quorum": {quorum.name},
        }
        picture = tmp_path / "dashboard.png"
        draw(panels, samples, begun, picture)
        record_property("picture", str(picture))
        phases = {
            series["metric"]["phase"]
            for series in prometheus.samples("metadataquorum_operator_quorum_phase == 1", begun)
        }
        assert {"Ready", "Repairing"} <= phases
        epochs = prometheus.samples("max(metadata_quorum_leader_epoch)", begun)[0]["values"]
        assert int(epochs[-1][1]) > int(epochs[0][1]), (
            "the election after the killed leader is visible"
        )
        load.stop()
    check_series_disappear(env, quorum, port)
