"""Records the live voters, by a thread that samples twice a second, and the operator's log meanwhile."""

import time
from types import TracebackType
from typing import Self

from support.envtest.kube_api import Json
from support.kind_env.periodic_check import PeriodicCheck
from support.kind_env.quorum import NO_ANSWER, Quorum
from support.random_changes.harm import Sample
from support.random_changes.operations import UUID, Operations
from support.random_changes.operator_log import OperatorLog

_LOOK_S = 0.5
EXIT_BUG = 70
"""The exit code of a node that found itself wrong."""


class RoundWatch(PeriodicCheck):
    """`samples`: in order of time. `problems`: processes that ended by a bug."""

    def __init__(self, operations: Operations) -> None:
        # After a failure (a host that is cut off, a busy API server) the next sample may succeed.
        super().__init__("round-watch", _LOOK_S, NO_ANSWER)
        self._operations = operations
        # A separate handle, because a handle keeps the member that answered last.
        self._quorum = Quorum(operations.api, operations.namespace, operations.name)
        self.log = OperatorLog(operations.api, operations.namespace)
        self.samples: list[Sample] = []
        self._exits: set[tuple[str, int]] = set()
        self._names: dict[str, str] = {}

    def __enter__(self) -> Self:
        self.log.look()
        return super().__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        self._quorum.close()
        self.log.end()

    @property
    def problems(self) -> list[str]:
        bugs = [f"{pod} ended with exit code {code}" for pod, code in sorted(self._exits)]
        return [*bugs, *self.log.bugs()]

    def look(self) -> None:
        """Of the operator's log, the members and the leader's description; clients trust whom the quorum trusts now."""
        self.log.look()
        self._operations.env.the_load.renew_trust()
        for found in self._operations.sets():
            uuid = (found["metadata"].get("annotations") or {}).get(UUID)
            if uuid is not None:
                self._names[uuid] = found["metadata"]["name"]
        running = set()
        for pod in self._operations.pods():
            name = pod["metadata"]["name"]
            self._exits.update((name, code) for code in _exit_codes(pod) if code == EXIT_BUG)
            if (
                pod["status"].get("phase") == "Running"
                and "deletionTimestamp" not in pod["metadata"]
            ):
                running.add(name.removesuffix("-0"))
        described = self._quorum.describe()
        if described is None:
            return
        live = {
            self._names.get(each.uuid, each.uuid)
            for each in described.voters
            if (each.fetching and each.caught_up) or each.uuid == described.leader_uuid
        }
        self.samples.append(Sample(time.time(), len(described.voters), frozenset(live & running)))


def _exit_codes(pod: Json) -> list[int]:
    states = [
        status.get(key, {}).get("terminated")
        for status in pod["status"].get("containerStatuses", [])
        for key in ("state", "lastState")
    ]
    return [state["exitCode"] for state in states if state]
