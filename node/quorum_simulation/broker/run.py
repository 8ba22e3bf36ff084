"""Runs histories of brokers by seed, stores their outcomes, and summarizes many of them.

Owns running a seed to an outcome or a failure, and the text of a section of
docs/evidence/simulation.md. Must not know the content of a history.
"""

import time
from collections import Counter
from dataclasses import fields
from typing import Any

from quorum_simulation.broker.world import Outcome, World
from quorum_simulation.ledger import Form
from quorum_simulation.long_run import Played
from quorum_simulation.run import Failure, garbage_kept

COMMAND = "python -m quorum_simulation.broker"
BEGIN, END = "<!-- simulated brokers -->\n", "<!-- end of simulated brokers -->"


def run_seed(seed: int) -> Outcome | Failure:
    """A violation, or any other exception, is a failure of the seed."""
    started_s = time.process_time()
    with garbage_kept():
        world = World(seed)
        try:
            outcome = world.play()
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            return Failure(seed, problem, world.faults.history, COMMAND)
    outcome.cpu_s = time.process_time() - started_s
    return outcome


def _encoded(outcome: Outcome) -> dict[str, Any]:
    return {each.name: getattr(outcome, each.name) for each in fields(outcome)}


def _decoded(told: dict[str, Any]) -> Outcome:
    return Outcome(**{**told, "struck": Counter(told["struck"])})


BROKERS = Form(_encoded, _decoded)


def markdown(played: Played[Outcome]) -> str:
    """The lines between the marks of the document."""
    outcomes = played.outcomes
    struck = sum((each.struck for each in outcomes), Counter[str]())
    cpu_s = sum(each.cpu_s for each in outcomes)
    lines = [
        f"{played.when}: {played.count}: {struck.total():,} faults,",
        f"{_sum(outcomes, 'elections')} elections, {_sum(outcomes, 'isr_changes')} changes of the ISR, {_sum(outcomes, 'truncations')} truncations, {_sum(outcomes, 'restarts')} restarted logs,",
        f"{_sum(outcomes, 'acks')} acknowledged batches, {_sum(outcomes, 'refusals')} refused ones, {_sum(outcomes, 'reads')} batches read. {_sum(outcomes, 'power_cuts')} leaders lost unsynced records.",
        f"{sum(each.simulated_ms for each in outcomes) / 3_600_000:.1f} simulated hours took {cpu_s / 3600:.2f} hours of processor time, {100 * cpu_s / max(1, len(outcomes)):.1f} s per 100 seeds.",
        "",
        "| fault | histories | all |",
        "|---|---:|---:|",
    ]
    for kind, count in sorted(struck.items()):
        having = sum(kind in each.struck for each in outcomes)
        lines.append(f"| {kind} | {having:,} | {count:,} |")
    return "\n".join(lines) + "\n"


def _sum(outcomes: Any, name: str) -> str:
    return f"{sum(getattr(each, name) for each in outcomes):,}"
