"""What became of a quorum's pods while something went on: which were replaced, in which order, and how many were down at once.

Owns the looking (a thread of its own, many times a second) and what it amounts to; what is allowed is the test's affair.
"""

from support.envtest.kube_api import Json
from support.kind_env.looking import Looking
from support.kind_env.quorum import Quorum

_LOOK_S = 0.02


def is_ready(pod: Json) -> bool:
    """Ready, and not about to go."""
    conditions = pod["status"].get("conditions") or []
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


class PodWatch(Looking):
    """`replaced`: pods by name, in the order in which they went; `most_down`: at one moment; `down`: now."""

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
        """The pods that were there when it began."""
        return frozenset(self._uids)

    @property
    def all_anew(self) -> bool:
        """Every pod was replaced, and all are ready."""
        return set(self.replaced) == self.before and not self.down

    def _pods(self) -> list[tuple[str, str, bool]]:
        """Name, uid and readiness of every pod."""
        return [
            (pod["metadata"]["name"], pod["metadata"]["uid"], is_ready(pod))
            for pod in self._quorum.pods()
        ]

    def look(self) -> None:
        """Of all pods."""
        seen = self._pods()
        self.looks += 1
        self.down = self.before - {name for name, _, ready in seen if ready}
        self.most_down = max(self.most_down, len(self.down))
        uids = {name: uid for name, uid, _ in seen}
        for name, uid in self._uids.items():
            if uids.get(name) != uid and name not in self.replaced:
                self.replaced.append(name)
