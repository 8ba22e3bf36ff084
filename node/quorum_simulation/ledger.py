"""Finished histories, kept between runs: a set of ten thousand takes hours, and is played in as many runs as it needs.

Owns the files: one per digest of what decides a history (`sources.py`), outside the checkout, a line of JSON for each
seed that held, written as soon as it did. Must not know how histories are played. A seed that failed is never written:
the next run plays it again.
"""

import json
import os
from collections import Counter
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from quorum_simulation.story import Outcome

_UNKEPT = frozenset({"history"})
_COUNTERS = ("reads", "snapshots", "recovery")


def ledger_directory() -> Path:
    """`simulation` in METADATAQUORUM_CACHE, or in ~/.cache/metadataquorum."""
    named = os.environ.get("METADATAQUORUM_CACHE")
    cache = Path(named) if named else Path.home() / ".cache" / "metadataquorum"
    return cache / "simulation"


@dataclass(frozen=True, slots=True)
class Kept:
    """A finished history, the day on which it was played (UTC), and the commit that it was played from."""

    outcome: Outcome
    date: str
    commit: str


class Ledger:
    """The finished histories of one digest. Several runs may write the same file at the same time."""

    def __init__(self, directory: Path, digest: str) -> None:
        """Raises OSError if the directory can't be made, or the file neither read nor written."""
        directory.mkdir(parents=True, exist_ok=True)
        self.file = directory / f"{digest}.jsonl"
        self.kept: dict[int, Kept] = {}
        """By seed."""
        self._fd = os.open(self.file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        self._read()

    def close(self) -> None:
        """Nothing is kept any more."""
        os.close(self._fd)

    def keep(self, kept: Kept) -> None:
        """Raises OSError if it can't be written."""
        line = json.dumps(_encoded(kept), separators=(",", ":")) + "\n"
        # One appending call per line: neither an interruption nor a concurrent run can leave a
        # partial line.
        os.write(self._fd, line.encode())
        self.kept.setdefault(kept.outcome.seed, kept)

    def _read(self) -> None:
        text = self.file.read_text()
        for line in text.splitlines():
            try:
                kept = _decoded(json.loads(line))
            except (ValueError, LookupError, TypeError):
                continue  # a partial line after a power failure; the seed is run again
            self.kept.setdefault(kept.outcome.seed, kept)
        if text and not text.endswith("\n"):
            os.write(self._fd, b"\n")


def _encoded(kept: Kept) -> dict[str, Any]:
    outcome = kept.outcome
    names = [each.name for each in fields(outcome) if each.name not in _UNKEPT]
    told = {name: getattr(outcome, name) for name in names}
    struck = [[kind, phase, count] for (kind, phase), count in sorted(outcome.struck.items())]
    return {"date": kept.date, "commit": kept.commit, "outcome": {**told, "struck": struck}}


def _decoded(told: dict[str, Any]) -> Kept:
    values = dict(told["outcome"])
    for name in _COUNTERS:
        values[name] = Counter(values[name])
    values["struck"] = Counter({(kind, phase): count for kind, phase, count in values["struck"]})
    return Kept(Outcome(**values), told["date"], told["commit"])
