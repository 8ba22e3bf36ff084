"""Follows the operator's log over restarts, new pods and two pods at once.

Owns the following (a thread for each pod) and parsing the records; other modules evaluate them.
"""

import json
import threading
from collections import deque
from datetime import datetime

import httpx

from support.envtest.kube_api import ApiError, Json
from support.kind_env import installation, kube
from support.kind_env.kube import Kube

_QUIET_S = 5.0
_AGAIN_S = 0.3
_KEPT = 20_000


class OperatorLog:
    """Everything that was logged since `start`, of one namespace where a record names one."""

    def __init__(self, api: Kube, namespace: str) -> None:
        self._api, self._namespace = api, namespace
        self._ended = threading.Event()
        self._followed: dict[str, threading.Thread] = {}
        self._seen: set[str] = set()
        self._lines: deque[str] = deque(maxlen=_KEPT)
        self._lock = threading.Lock()

    def look(self) -> None:
        """Follow every pod of the operator that is there now."""
        for pod in installation.operator_pods(self._api):
            name = pod["metadata"]["name"]
            if name not in self._followed:
                thread = threading.Thread(target=self._follow, args=(name,), daemon=True)
                self._followed[name] = thread
                thread.start()

    def end(self) -> None:
        """No more is read."""
        self._ended.set()

    def _follow(self, pod: str) -> None:
        path = f"{kube.core(installation.OPERATOR_NAMESPACE, 'pods', pod)}/log"
        query = {"follow": "true", "timestamps": "true", "sinceSeconds": "10"}
        while not self._ended.wait(_AGAIN_S):
            try:
                for line in self._api.lines(path, query, quiet_s=_QUIET_S):
                    self._keep(line)
            except ApiError as error:
                if error.status == 404:
                    return
            except httpx.HTTPError:
                continue

    def _keep(self, line: str) -> None:
        """Kubernetes' time stands before each line, so that equal ones are the same."""
        with self._lock:
            if line not in self._seen:
                self._seen.add(line)
                self._lines.append(line)

    def records(self) -> list[Json]:
        """Each JSON line of ours, in order, with its time as `at`, in seconds since 1970."""
        with self._lock:
            lines = list(self._lines)
        found = [record for line in lines if (record := _record(line)) is not None]
        ours = [each for each in found if each.get("namespace", self._namespace) == self._namespace]
        return sorted(ours, key=lambda each: each["at"])

    def steps(self) -> list[Json]:
        return [each for each in self.records() if each.get("event") == "step"]

    def bugs(self) -> list[str]:
        """Unexpected exceptions."""
        return [
            f"the operator: {each.get('event')}: {each['exception'].splitlines()[-1]}"
            for each in self.records()
            if "exception" in each and "quorum_operator" in each["exception"]
        ]

    def tail(self, count: int) -> list[str]:
        with self._lock:
            return list(self._lines)[-count:]


def _record(line: str) -> Json | None:
    try:
        record = json.loads(line.partition(" ")[2])
        record["at"] = datetime.fromisoformat(record["timestamp"]).timestamp()
    except (ValueError, KeyError, TypeError):
        return None
    return record if isinstance(record, dict) else None
