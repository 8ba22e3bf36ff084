"""Distributes tests over the workers of a parallel run (`pytest -n`).

The tests of a file (or of a class) stay on one worker. The tests of some stages share a fixture that is expensive to start; only a
few workers run these stages, and each starts the fixture once.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

WORKERS_OF = {"envtest": 2, "pipeline": 1, "e2e": 1}
"""The control planes, the Spark sessions and the kind clusters that a run makes at most."""

ENTIRE = ("pipeline", "e2e")
"""These are handed out as one piece: who holds one of them comes to no other work in between."""

FIRST = (
    "envtest",
    "pipeline",
    "e2e",
    "interop",
    "processes",
    "linearizability",
    "simulation",
    "tidy",
)
"""They wait for processes more than they compute, or their files take longest. Begun first, they leave small files for the
end, in which all workers are busy until they stop together."""


def stage_of(node_id: str) -> str:
    """`tests/unit/raft/test_vote.py::test_x` → `unit`."""
    parts = node_id.partition("::")[0].split("/")
    return parts[1] if len(parts) > 2 and parts[0] == "tests" else "tests"


def group_of(node_id: str) -> str:
    """The group of tests that stay on one worker: a class, a file, or a whole folder."""
    stage = stage_of(node_id)
    return f"tests/{stage}/" if stage in ENTIRE else node_id.partition("[")[0].rpartition("::")[0]


def order_of_start(tests: Iterable[tuple[str, bool]]) -> dict[str, int]:
    """Rank of each group among those of its stage, from the node ids of tests and whether these are marked slow: the group with
    most slow tests begins first. A long file that begins last would keep one worker busy while the others have nothing to do."""
    slow: Counter[str] = Counter()
    for node_id, is_slow in tests:
        slow[group_of(node_id)] += is_slow
    return {group: -count for group, count in slow.items()}


class StageScheduling(LoadScopeScheduling):  # type: ignore[misc] # xdist has no types
    """Assigns groups in order, except those of stages that enough other workers run already. A worker that runs such a
    stage continues with it until it is finished."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        group = self._next_for(node)
        if group is None:
            node.shutdown()
            return
        self.workqueue.move_to_end(group, last=False)
        super()._assign_work_unit(node)

    def _next_for(self, node: WorkerController) -> str | None:
        own = set(self._begun_by(node))
        others = [
            stage for each in self.nodes if each is not node for stage in self._begun_by(each)
        ]
        allowed = None
        for group in self.workqueue:
            stage = stage_of(group)
            if stage in own:
                return str(group)
            if allowed is None and others.count(stage) < WORKERS_OF.get(stage, len(others) + 1):
                allowed = str(group)
        return allowed

    def _begun_by(self, node: WorkerController) -> Iterator[str]:
        """The stages that have a limit and of which this worker was given something."""
        return iter({stage_of(each) for each in self.assigned_work[node]} & WORKERS_OF.keys())
