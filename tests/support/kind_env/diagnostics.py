"""Collects the diagnostics of a failed test into one folder.

If a query fails, its error is written to the file, and the rest is collected.
"""

import json
import time
from pathlib import Path

from support.kind_env.installation import OPERATOR_NAMESPACE
from support.kind_env.quorum import Quorum
from support.kind_env.testbed import TestbedError, programs, run, state_directory

_CALL_TIMEOUT_S = 30.0
_NODE_PATHS = ("/v1/node", "/v1/quorum?confirmed=false", "/v1/voter-history")


def collect(name: str, kubeconfig: Path, quorum: Quorum | None) -> Path:
    """Write the folder; returns its path."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    folder = state_directory() / "diagnostics" / f"{stamp}-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    kubectl = _Kubectl(kubeconfig, folder)
    kubectl.write("events.txt", "get", "events", "-A", "--sort-by=.lastTimestamp")
    kubectl.write("nodes.txt", "describe", "nodes")
    kubectl.write("volumes.txt", "get", "pv,pvc", "-A", "-o", "wide")
    kubectl.write("operator.txt", "-n", OPERATOR_NAMESPACE, "describe", "pods")
    _logs(kubectl, OPERATOR_NAMESPACE)
    if quorum is not None:
        _collect_quorum(kubectl, quorum)
    return folder


def _collect_quorum(kubectl: "_Kubectl", quorum: Quorum) -> None:
    at = ("-n", quorum.namespace)
    kubectl.write("quorum.yaml", *at, "get", "metadataquorum", quorum.name, "-o", "yaml")
    kubectl.write("objects.txt", *at, "get", "all,pvc,configmap", "-o", "wide")
    kubectl.write("statefulsets.yaml", *at, "get", "statefulsets", "-o", "yaml")
    kubectl.write("pods.txt", *at, "describe", "pods")
    _logs(kubectl, quorum.namespace)
    listed = kubectl.ask(*at, "get", "pods", "-l", quorum.selector, "-o", "name")
    for name in (line.removeprefix("pod/") for line in listed.splitlines()):
        answers = {path: _asked(quorum, name, path) for path in _NODE_PATHS}
        (kubectl.folder / f"{name}.json").write_text(json.dumps(answers, indent=1))


def _asked(quorum: Quorum, pod: str, path: str) -> object:
    try:
        return quorum.fetch_from(pod, path)
    except Exception as error:  # any error: the remaining queries still run
        return repr(error)


def _logs(kubectl: "_Kubectl", namespace: str) -> None:
    listed = kubectl.ask("-n", namespace, "get", "pods", "-o", "name")
    for line in listed.splitlines():
        if not line.startswith("pod/"):
            continue
        pod = line.removeprefix("pod/")
        logs = ("-n", namespace, "logs", pod, "--all-containers", "--timestamps")
        kubectl.write(f"{pod}.log", *logs)
        kubectl.write(f"{pod}.previous.log", *logs, "--previous")


class _Kubectl:
    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self.folder = folder
        self._command = [str(programs.kubectl()), "--kubeconfig", str(kubeconfig)]

    def ask(self, *words: str) -> str:
        try:
            done = run([*self._command, *words], timeout_s=_CALL_TIMEOUT_S, check=False)
        except TestbedError as error:
            return str(error)
        return done.stdout + done.stderr

    def write(self, file: str, *words: str) -> None:
        (self.folder / file).write_text(self.ask(*words))
