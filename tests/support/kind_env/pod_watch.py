"""Observes a quorum's pods during an operation: which were replaced, in which order, and how many were down at once.

Owns the sampling in a thread, many times a second, and its evaluation. Must not know what a test allows.
"""

from support.envtest.kube_api import Json
from support.kind_env.periodic_check import PeriodicCheck
from support.kind_env.quorum import Quorum

_LOOK_S = 0.02


def is_ready(pod: Json) -> bool:
    """Whether a pod is ready and not being deleted."""
    conditions = pod["status"].get("conditions") or []
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


class PodWatch(PeriodicCheck):
    """`replaced`: names of replaced pods in order. `most_down`: maximum number of pods that were down at once. `down`: now."""

    def __init__(self, quorum: Quorum) -> None:
        super().__init__("pod-watch", _LOOK_S)
        self._quorum = quorum
        self._uids = {name: uid for name, uid, _ in self._pods()}
        self.replaced: list[str] = []
        self.most_down = 0
        self.down: frozenset[str] = frozenset()
        self.looks = 0

    @property
    def before(self) -> frozenset[str]:
        """The pods at the start."""
        return frozenset(self._uids)

    @property
    def all_recreated(self) -> bool:
        """Whether every pod was replaced and all are ready."""
        return set(self.replaced) == self.before and not self.down

    def _pods(self) -> list[tuple[str, str, bool]]:
        """Name, uid and readiness of every pod."""
        return [
            (pod["metadata"]["name"], pod["metadata"]["uid"], is_ready(pod))
            for pod in self._quorum.pods()
        ]

    def look(self) -> None:
        """One sample of all pods."""
        seen = self._pods()
        self.looks += 1
        self.down = self.before - {name for name, _, ready in seen if ready}
        self.most_down = max(self.most_down, len(self.down))
        uids = {name: uid for name, uid, _ in seen}
        for name, uid in self._uids.items():
            if uids.get(name) != uid and name not in self.replaced:
                self.replaced.append(name)
