"""What many histories amount to, as a section of docs/evidence/simulation.md.

Owns the words and the numbers: simulated time per processor time, and faults by kind and phase. Must not
know how histories are played.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from quorum_simulation.faults.phases import PHASES
from quorum_simulation.story import Outcome

BEGIN, END = "<!-- simulated -->\n", "<!-- end of simulated -->"


@dataclass(frozen=True, slots=True)
class Played:
    """`outcomes`: of the histories that held. `failed`: seeds. `when`: dates, and the code that was played."""

    outcomes: Sequence[Outcome]
    failed: Sequence[int]
    wanted: range
    when: str


def markdown(played: Played) -> str:
    """The lines between the marks."""
    outcomes = played.outcomes
    struck = sum((each.struck for each in outcomes), Counter[tuple[str, str]]())
    simulated_h = sum(each.simulated_ms for each in outcomes) / 3_600_000
    cpu_h = sum(each.cpu_s for each in outcomes) / 3600
    per_100_s = 100 * cpu_h * 3600 / max(1, len(outcomes))
    writes = sum(each.writes + each.second_writes for each in outcomes)
    reads = sum((each.reads for each in outcomes), Counter[str]()).total()
    changes = sum(each.changes for each in outcomes)
    faults = struck.total()
    speed = simulated_h / max(cpu_h, 1e-9)
    lines = [
        f"{played.when}: {_count_of(played)}: {faults:,} faults, {changes:,} voter changes,",
        f"{writes:,} acknowledged writes, {reads:,} linearizable reads. {simulated_h:.1f} simulated hours took {cpu_h:.2f} hours",
        f"of processor time: **{speed:.0f} simulated hours per CPU hour**, {per_100_s:.0f} s per 100 seeds.",
        "",
        f"| fault | histories | {' | '.join(PHASES)} | all |",
        "|---|" + "---:|" * (len(PHASES) + 2),
    ]
    for kind in sorted({kind for kind, _ in struck}):
        counts = [struck[kind, phase] for phase in PHASES]
        cells = [str(count) if count else "" for count in counts]
        having = sum(any(hit == kind for hit, _ in each.struck) for each in outcomes)
        lines.append(f"| {kind} | {having} | {' | '.join(cells)} | {sum(counts)} |")
    return "\n".join(lines) + "\n"


def _count_of(played: Played) -> str:
    first, last, wanted = played.wanted[0], played.wanted[-1], len(played.wanted)
    finished = len(played.outcomes)
    of = (
        f"{finished:,} histories" if finished == wanted else f"{finished:,} of {wanted:,} histories"
    )
    failed = f"failed: {', '.join(map(str, played.failed))}" if played.failed else "none failed"
    return f"{of}, seeds {first:,} to {last:,}, {failed}"


def write(document: Path, text: str) -> None:
    """Put it between the marks of a document."""
    before, _, rest = document.read_text().partition(BEGIN)
    document.write_text(before + BEGIN + text + END + rest.partition(END)[2])
