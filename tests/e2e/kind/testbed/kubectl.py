"""kubectl bound to one kubeconfig: text and objects in, text and objects out."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testbed import programs
from testbed.commands import run


class Kubectl:
    """Every method raises CommandFailed with kubectl's output when it fails or times out."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    def run(self, *words: str, timeout_s: float = 60.0, stdin: str | None = None) -> str:
        command = [str(programs.kubectl()), "--kubeconfig", str(self.kubeconfig), *words]
        return run(command, timeout_s=timeout_s, stdin=stdin).stdout

    def get(self, *words: str) -> dict[str, Any]:
        """The object, or the List of objects, that `kubectl get` names."""
        found: dict[str, Any] = json.loads(self.run("get", *words, "-o", "json"))
        return found

    def apply(self, *objects: Mapping[str, object]) -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.run("apply", "-f", "-", stdin=json.dumps(listed))
