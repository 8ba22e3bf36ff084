"""A set of histories that is played in as many runs as it takes: what is finished is kept, and only the rest is played.

Owns which seeds are left and what all runs together amount to. Must not know how histories are played, nor how they
are kept (`ledger.py`).
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Generic

from quorum_simulation.ledger import Finished, Form, Kept, Ledger
from quorum_simulation.run import Failure, Report
from quorum_simulation.sources import Sources


@dataclass(frozen=True, slots=True)
class Played(Generic[Finished]):
    """`outcomes`: of the histories that held. `failed`: seeds. `when`: dates, and the code that was played."""

    outcomes: Sequence[Finished]
    failed: Sequence[int]
    wanted: range
    when: str

    @property
    def count(self) -> str:
        """How many of which seeds, and which ones failed."""
        first, last, wanted = self.wanted[0], self.wanted[-1], len(self.wanted)
        finished = len(self.outcomes)
        of = (
            f"{finished:,} histories"
            if finished == wanted
            else f"{finished:,} of {wanted:,} histories"
        )
        failed = f"failed: {', '.join(map(str, self.failed))}" if self.failed else "none failed"
        return f"{of}, seeds {first:,} to {last:,}, {failed}"


class LongRun(Generic[Finished]):
    """`directory`: of the ledger; None: nothing is known before, and nothing kept."""

    def __init__(
        self, seeds: range, sources: Sources, directory: Path | None, form: Form[Finished]
    ) -> None:
        self._seeds = seeds
        self._sources = sources
        self._form = form
        self._ledger = None if directory is None else self._opened(directory)
        kept = self._ledger.kept if self._ledger is not None else {}
        self._finished = {seed: kept[seed] for seed in seeds if seed in kept}
        self.left = [seed for seed in seeds if seed not in kept]

    @property
    def finished(self) -> list[Finished]:
        """By seed, of all runs."""
        return [self._finished[seed].outcome for seed in sorted(self._finished)]

    @property
    def file(self) -> Path | None:
        """Where finished histories are kept, if they are."""
        return None if self._ledger is None else self._ledger.file

    def _opened(self, directory: Path) -> Ledger[Finished] | None:
        try:
            return Ledger(directory, self._sources.digest, self._form)
        except OSError as error:
            print(f"finished histories are not kept: {error}", file=sys.stderr, flush=True)
            return None

    def played(self, result: Finished | Failure) -> None:
        """Keep it, if it held."""
        if isinstance(result, Failure):
            return
        today = datetime.now(UTC).date().isoformat()
        kept = Kept(result, today, self._sources.commit)
        self._finished[result.seed] = kept
        if self._ledger is None:
            return
        try:
            self._ledger.keep(kept)
        except OSError as error:
            print(f"finished histories are kept no more: {error}", file=sys.stderr, flush=True)
            self._ledger = None

    def summed_up(self, report: Report[Finished]) -> Played[Finished]:
        """Of all runs; `report`: the last one's, for its failures."""
        failed = sorted(failure.seed for failure in report.failures)
        return Played(self.finished, failed, self._seeds, self._when())

    def _when(self) -> str:
        dates = sorted({kept.date for kept in self._finished.values()})
        commits = sorted({kept.commit for kept in self._finished.values()} - {""})
        days = " to ".join(dict.fromkeys((dates[0], dates[-1]))) if dates else "not played"
        of = f"commit {', '.join(commits)}, " if commits else ""
        return f"{days}, {of}sources {self._sources.digest}, Python {self._sources.python}"
