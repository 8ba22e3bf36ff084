"""What became of a quorum's pods while something went on: which were replaced, in which order, and how many were down at once.

Owns the looking (a thread of its own, many times a second) and what it amounts to; what is allowed is the test's affair.
"""

import threading
from types import TracebackType
from typing import Self

from support.harness.kube_api import Json
from support.trial.quorum import Quorum

_LOOK_S = 0.02


def is_ready(pod: Json) -> bool:
    """Ready, and not about to go."""
    conditions = pod["status"].get("conditions") or []
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


class PodWatch:
    """A context manager. `replaced`: pods by name, in the order in which they went; `most_down`: at one moment; `down`: now."""

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum
        self._uids = {name: uid for name, uid, _ in self._look()}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pod-watch")
        self.replaced: list[str] = []
        self.most_down = 0
        self.down: frozenset[str] = frozenset()
        self.looks = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def before(self) -> frozenset[str]:
        """The pods that were there when it began."""
        return frozenset(self._uids)

    @property
    def all_anew(self) -> bool:
        """Every pod was replaced, and all are ready."""
        return set(self.replaced) == self.before and not self.down

    def _look(self) -> list[tuple[str, str, bool]]:
        """Name, uid and readiness of every pod."""
        return [
            (pod["metadata"]["name"], pod["metadata"]["uid"], is_ready(pod))
            for pod in self._quorum.pods()
        ]

    def _run(self) -> None:
        while not self._ended.wait(_LOOK_S):
            seen = self._look()
            self.looks += 1
            self.down = self.before - {name for name, _, ready in seen if ready}
            self.most_down = max(self.most_down, len(self.down))
            uids = {name: uid for name, uid, _ in seen}
            for name, uid in self._uids.items():
                if uids.get(name) != uid and name not in self.replaced:
                    self.replaced.append(name)
