"""The passed rounds by seed and source tree, so that a long run can be resumed, also on another machine.

The file is checked in. Several processes may add rounds, each on its own cluster.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
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
    """A file of the passed rounds of one source tree; each round is written before the next one begins."""

    def __init__(self, path: Path, tree: str) -> None:
        self._path, self._tree = path, tree

    def passed(self) -> dict[int, PassedRound]:
        """Rounds of this very tree, by seed."""
        return {
            int(seed): PassedRound(each["settled_s"], each["acknowledged"], tuple(each["answered"]))
            for seed, each in self._rounds().items()
        }

    def add(self, seed: int, passed: PassedRound) -> None:
        """Add a round. Rounds of another tree are removed: they count no longer."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._locked():
            found = {**self._rounds(), str(seed): asdict(passed)}
            ordered = {key: found[key] for key in sorted(found, key=int)}
            lines = (f"  {json.dumps(key)}: {json.dumps(each)}" for key, each in ordered.items())
            rounds = "{\n" + ",\n".join(lines) + "\n }"
            fresh = self._path.with_suffix(".new")
            fresh.write_text(f'{{\n "tree": {json.dumps(self._tree)},\n "rounds": {rounds}\n}}\n')
            fresh.replace(self._path)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def _rounds(self) -> dict[str, Json]:
        try:
            found = json.loads(self._path.read_text())
        except FileNotFoundError:
            return {}
        rounds: dict[str, Json] = found["rounds"] if found["tree"] == self._tree else {}
        return rounds


def ledger(root: Path = REPOSITORY) -> PassedRounds:
    """The ledger of this checkout."""
    return PassedRounds(root / "docs" / "evidence" / "random-changes.json", tree_of(root))
