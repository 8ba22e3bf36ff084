"""A set of histories that is played in as many runs as it takes: what is finished is kept, and only the rest is played.

Owns which seeds are left and what all runs together amount to. Must not know how histories are played, nor how they
are kept (`ledger.py`).
"""

import sys
from datetime import UTC, datetime
from pathlib import Path

from quorum_simulation.ledger import Kept, Ledger
from quorum_simulation.run import Failure, Report
from quorum_simulation.sources import Sources
from quorum_simulation.story import Outcome
from quorum_simulation.summary import Played


class LongRun:
    """`directory`: of the ledger; None: nothing is known before, and nothing kept."""

    def __init__(self, seeds: range, sources: Sources, directory: Path | None) -> None:
        self._seeds = seeds
        self._sources = sources
        self._ledger = None if directory is None else self._opened(directory)
        kept = self._ledger.kept if self._ledger is not None else {}
        self._finished = {seed: kept[seed] for seed in seeds if seed in kept}
        self.left = [seed for seed in seeds if seed not in kept]

    @property
    def finished(self) -> list[Outcome]:
        """By seed, of all runs."""
        return [self._finished[seed].outcome for seed in sorted(self._finished)]

    @property
    def file(self) -> Path | None:
        """Where finished histories are kept, if they are."""
        return None if self._ledger is None else self._ledger.file

    def _opened(self, directory: Path) -> Ledger | None:
        try:
            return Ledger(directory, self._sources.digest)
        except OSError as error:
            print(f"finished histories are not kept: {error}", file=sys.stderr, flush=True)
            return None

    def played(self, result: Outcome | Failure) -> None:
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

    def summed_up(self, report: Report) -> Played:
        """Of all runs; `report`: the last one's, for its failures."""
        failed = sorted(failure.seed for failure in report.failures)
        return Played(self.finished, failed, self._seeds, self._when())

    def _when(self) -> str:
        dates = sorted({kept.date for kept in self._finished.values()})
        commits = sorted({kept.commit for kept in self._finished.values()} - {""})
        days = " to ".join(dict.fromkeys((dates[0], dates[-1]))) if dates else "not played"
        of = f"commit {', '.join(commits)}, " if commits else ""
        return f"{days}, {of}sources {self._sources.digest}, Python {self._sources.python}"
