"""The passed rounds by seed and source tree, so that a long run can be resumed."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from support.envtest.kube_api import Json
from support.kind_env.testbed import REPOSITORY
from support.requirement_inputs import Inputs

TREE = (
    "node/quorum_node",
    "operator/quorum_operator",
    "crds",
    "helm",
    "tests/support/random_changes",
)
"""The code that runs in a round, and the code that evaluates it."""


@dataclass(frozen=True, slots=True)
class PassedRound:
    """One round: how long it took to settle, and what was checked."""

    settled_s: float
    acknowledged: int
    answered: tuple[str, ...]


def tree_of(root: Path = REPOSITORY) -> str:
    """A hash over names and contents of the files that a round depends on."""
    return Inputs(root).under(*TREE).inputs


class PassedRounds:
    """A file of passed rounds; each round is synced before the next one begins."""

    def __init__(self, path: Path, tree: str) -> None:
        self._path, self._tree = path, tree

    def passed(self) -> dict[int, PassedRound]:
        """Rounds of this very tree, by seed."""
        return {
            int(seed): PassedRound(each["settled_s"], each["acknowledged"], tuple(each["answered"]))
            for seed, each in self._read().get(self._tree, {}).items()
        }

    def add(self, seed: int, passed: PassedRound) -> None:
        everything = self._read()
        everything.setdefault(self._tree, {})[str(seed)] = asdict(passed)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_suffix(".new")
        fresh.write_text(json.dumps(everything, indent=1, sort_keys=True) + "\n")
        fresh.replace(self._path)

    def _read(self) -> dict[str, dict[str, Json]]:
        try:
            found: dict[str, dict[str, Json]] = json.loads(self._path.read_text())
        except FileNotFoundError:
            return {}
        return found


def ledger(root: Path = REPOSITORY) -> PassedRounds:
    """The ledger of this checkout."""
    return PassedRounds(root / ".requirements" / "anything.json", tree_of(root))
