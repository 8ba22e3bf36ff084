"""Finished histories, kept between runs: a set of ten thousand takes hours, and is played in as many runs as it needs.

Owns the files: one per digest of what decides a history (`sources.py`), outside the checkout, a line of JSON for each
seed that held, written as soon as it did; and the form of a quorum's history in it. Must not know how histories are
played. A seed that failed is never written: the next run plays it again.
"""

import json
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from quorum_simulation.story import Outcome

_UNKEPT = frozenset({"history"})
_COUNTERS = ("reads", "snapshots", "recovery")


def ledger_directory() -> Path:
    """`simulation` in METADATAQUORUM_CACHE, or in ~/.cache/metadataquorum."""
    named = os.environ.get("METADATAQUORUM_CACHE")
    cache = Path(named) if named else Path.home() / ".cache" / "metadataquorum"
    return cache / "simulation"


class Seeded(Protocol):
    """What a history amounts to."""

    @property
    def seed(self) -> int:
        """Of the history."""
        ...


Finished = TypeVar("Finished", bound=Seeded)


@dataclass(frozen=True, slots=True)
class Form(Generic[Finished]):
    """How an outcome is kept: as what JSON can hold. `decode` raises ValueError, LookupError or TypeError."""

    encode: Callable[[Finished], dict[str, Any]]
    decode: Callable[[dict[str, Any]], Finished]


@dataclass(frozen=True, slots=True)
class Kept(Generic[Finished]):
    """A finished history, the day on which it was played (UTC), and the commit that it was played from."""

    outcome: Finished
    date: str
    commit: str


class Ledger(Generic[Finished]):
    """The finished histories of one digest. Several runs may write the same file at the same time."""

    def __init__(self, directory: Path, digest: str, form: Form[Finished]) -> None:
        """Raises OSError if the directory can't be made, or the file neither read nor written."""
        directory.mkdir(parents=True, exist_ok=True)
        self.file = directory / f"{digest}.jsonl"
        self._form = form
        self.kept: dict[int, Kept[Finished]] = {}
        """By seed."""
        self._fd = os.open(self.file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        self._read()

    def close(self) -> None:
        """Nothing is kept any more."""
        os.close(self._fd)

    def keep(self, kept: Kept[Finished]) -> None:
        """Raises OSError if it can't be written."""
        outcome = self._form.encode(kept.outcome)
        told = {"date": kept.date, "commit": kept.commit, "outcome": outcome}
        line = json.dumps(told, separators=(",", ":")) + "\n"
        # One appending call per line: neither an interruption nor a concurrent run can leave a
        # partial line.
        os.write(self._fd, line.encode())
        self.kept.setdefault(kept.outcome.seed, kept)

    def _read(self) -> None:
        text = self.file.read_text()
        for line in text.splitlines():
            try:
                told = json.loads(line)
                outcome = self._form.decode(told["outcome"])
                kept = Kept(outcome, told["date"], told["commit"])
            except (ValueError, LookupError, TypeError):
                continue  # a partial line after a power failure; the seed is run again
            self.kept.setdefault(kept.outcome.seed, kept)
        if text and not text.endswith("\n"):
            os.write(self._fd, b"\n")


def _encoded(outcome: Outcome) -> dict[str, Any]:
    names = [each.name for each in fields(outcome) if each.name not in _UNKEPT]
    struck = [[kind, phase, count] for (kind, phase), count in sorted(outcome.struck.items())]
    return {**{name: getattr(outcome, name) for name in names}, "struck": struck}


def _decoded(told: dict[str, Any]) -> Outcome:
    values = dict(told)
    for name in _COUNTERS:
        values[name] = Counter(values[name])
    values["struck"] = Counter({(kind, phase): count for kind, phase, count in values["struck"]})
    return Outcome(**values)


QUORUMS = Form(_encoded, _decoded)
"""Of histories of quorums."""
