"""A real Prometheus for tests: it scrapes an operator and members on loopback, and evaluates alert rules.

Owns its process and its configuration. Labels of targets are those that the chart's PodMonitors give.
"""

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from support.envtest.kube_api import Json
from support.envtest.quorum import ApiServerQuorum
from support.ports import free_ports
from support.promtool import beside_promtool


class Prometheus:
    """A Prometheus on loopback, with its targets in a file. `rules`: a file of alert rules."""

    def __init__(self, folder: Path, operator_port: int, rules: Path | None = None) -> None:
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
        often = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        settings: Json = {"global": often, "scrape_configs": jobs}
        if rules is not None:
            settings["rule_files"] = [str(rules)]
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

    def scrape(self, *quorums: ApiServerQuorum) -> None:
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
            for quorum in quorums
            for pod in quorum.pods()
            if pod["status"].get("podIP")
        ]
        fresh = self._targets.with_suffix(".new")
        fresh.write_text(json.dumps(targets))
        fresh.replace(self._targets)

    def samples(self, query: str, since: float) -> list[Json]:
        """Series with values between then and now."""
        span = {"start": str(since), "end": str(time.time()), "step": "2"}
        found: list[Json] = self._data("query_range", {"query": query, **span})["result"]
        return found

    def labels(self, query: str) -> list[dict[str, str]]:
        """The labels of each series that has a value now."""
        result = self._data("query", {"query": query})["result"]
        return [series["metric"] for series in result]

    def values_of(self, label: str, selector: str, since: float) -> set[str]:
        """What the dashboard's `label_values` offers: the label's values among the series of a selector."""
        series = self._data("series", {"match[]": selector, "start": str(since)})
        return {each[label] for each in series}

    def _data(self, path: str, parameters: dict[str, str]) -> Any:
        answer = httpx.get(f"{self._url}/api/v1/{path}", params=parameters, trust_env=False)
        answer.raise_for_status()
        document = answer.json()
        assert document["status"] == "success", (parameters, document)
        return document["data"]

    def has(self, query: str, since: float) -> bool:
        """Whether it is answered yet; not before Prometheus listens."""
        try:
            return bool(self.samples(query, since))
        except (httpx.TransportError, httpx.HTTPStatusError):
            return False
