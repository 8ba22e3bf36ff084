"""A real Prometheus answers the dashboard's queries over a run with a dead disk and a killed leader."""

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import yaml

from support import chart
from support.dashboard_plots import draw
from support.envtest.environment import Env
from support.envtest.kube_api import Json
from support.envtest.quorum import MOVE_TIMEOUT_S, ApiServerQuorum
from support.kind_env.waiting import wait_for
from support.ports import free_ports
from support.promtool import beside_promtool

pytestmark = [pytest.mark.envtest, pytest.mark.long]

_DASHBOARD = chart.CHART / "monitoring" / "dashboard.json"
_NOT_IN_THIS_RUN = {
    "Failed reconciles per second": "a counter without an error has no series",
    "Certificates: time until the next renewal": "of quorums with certificates only",
}


class Prometheus:
    """A Prometheus on loopback, with its targets in a file."""

    def __init__(self, folder: Path, operator_port: int) -> None:
        folder.mkdir()
        self._folder, self._targets = folder, folder / "members.json"
        self._targets.write_text("[]")
        (port,) = free_ports(1)
        self._url = f"http://127.0.0.1:{port}"
        self._listen = f"127.0.0.1:{port}"
        operator = {"targets": [f"127.0.0.1:{operator_port}"], "labels": {"pod": "operator"}}
        members = {"files": [str(self._targets)], "refresh_interval": "1s"}
        jobs = [
            {"job_name": "operator", "honor_labels": True, "static_configs": [operator]},
            {"job_name": "members", "file_sd_configs": [members]},
        ]
        settings = {"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(settings))

    @contextmanager
    def running(self) -> Iterator[None]:
        command = [str(beside_promtool("prometheus"))]
        command += [f"--config.file={self._folder / 'prometheus.yaml'}"]
        command += [f"--storage.tsdb.path={self._folder / 'data'}"]
        command += [f"--web.listen-address={self._listen}"]
        with open(self._folder / "log", "wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
            try:
                yield
            finally:
                process.terminate()
                process.wait(30)

    def scrape(self, quorum: ApiServerQuorum) -> None:
        """The members that are there now, with the labels that the chart's PodMonitor gives."""
        targets = [
            {
                "targets": [f"{pod['status']['podIP']}:8080"],
                "labels": {
                    "namespace": quorum.namespace,
                    "quorum": quorum.name,
                    "pod": pod["metadata"]["name"],
                },
            }
            for pod in quorum.pods()
            if pod["status"].get("podIP")
        ]
        fresh = self._targets.with_suffix(".new")
        fresh.write_text(json.dumps(targets))
        fresh.replace(self._targets)

    def samples(self, query: str, since: float) -> list[Json]:
        """Series with values between then and now."""
        span = {"start": str(since), "end": str(time.time()), "step": "2"}
        answer = httpx.get(
            f"{self._url}/api/v1/query_range", params={"query": query, **span}, trust_env=False
        )
        answer.raise_for_status()
        document = answer.json()
        assert document["status"] == "success", (query, document)
        found: list[Json] = document["data"]["result"]
        return found

    def has(self, query: str, since: float) -> bool:
        """Whether it is answered yet; not before Prometheus listens."""
        try:
            return bool(self.samples(query, since))
        except (httpx.TransportError, httpx.HTTPStatusError):
            return False


@pytest.mark.timeout(600)
def test_every_dashboard_query_returns_a_result(
    env: Env, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Also draws the panels as an image."""
    (port,) = free_ports(1)
    operator, _ = env.add_operator(METADATAQUORUM_OPERATOR_LISTEN=f"127.0.0.1:{port}")
    operator.start()
    quorum = env.create(3, disks=True)
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
        before = quorum.wait_ready(3)
        failed = quorum.fail_disk(quorum.voter(leader=False, described=before))
        quorum.wait_replaced(failed, 3)
        prometheus.scrape(quorum)
        leader = quorum.wait_ready(3)
        quorum.send(quorum.pod_of(leader.leader_id, leader.leader_uuid), signal.SIGKILL)
        quorum.wait_ready(3, timeout_s=MOVE_TIMEOUT_S)
        load.wait_for_acknowledgement(timeout_s=60)
        wait_for(
            "the repair is scraped",
            lambda: prometheus.has("metadataquorum_operator_repairs_total == 1", begun),
            timeout_s=30,
        )

        def samples(expression: str) -> list[Json]:
            query = expression.replace("$namespace", ".*").replace("$quorum", ".*")
            return prometheus.samples(query, begun)

        panels = json.loads(_DASHBOARD.read_text())["panels"]
        empty = [
            (panel["title"], target["expr"])
            for panel in panels
            for target in panel.get("targets", [])
            if not samples(target["expr"]) and panel["title"] not in _NOT_IN_THIS_RUN
        ]
        assert empty == []
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
