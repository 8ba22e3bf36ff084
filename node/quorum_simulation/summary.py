"""What many histories amount to, as a section of docs/evidence/simulation.md.

Owns the words and the numbers: simulated time per processor time, and faults by kind and phase. Must not
know how histories are played.
"""

from collections import Counter
from pathlib import Path

from quorum_simulation.faults.phases import PHASES
from quorum_simulation.long_run import Played
from quorum_simulation.run import struck_in
from quorum_simulation.story import Outcome

BEGIN, END = "<!-- simulated -->\n", "<!-- end of simulated -->"


def markdown(played: Played[Outcome]) -> str:
    """The lines between the marks."""
    outcomes = played.outcomes
    struck = struck_in(outcomes)
    simulated_h = sum(each.simulated_ms for each in outcomes) / 3_600_000
    cpu_h = sum(each.cpu_s for each in outcomes) / 3600
    per_100_s = 100 * cpu_h * 3600 / max(1, len(outcomes))
    writes = sum(each.writes + each.second_writes for each in outcomes)
    reads = sum((each.reads for each in outcomes), Counter[str]()).total()
    changes = sum(each.changes for each in outcomes)
    faults = struck.total()
    speed = simulated_h / max(cpu_h, 1e-9)
    lines = [
        f"{played.when}: {played.count}: {faults:,} faults, {changes:,} voter changes,",
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


def write(document: Path, text: str, begin: str = BEGIN, end: str = END) -> None:
    """Put it between the marks of a document."""
    before, _, rest = document.read_text().partition(begin)
    document.write_text(before + begin + text + end + rest.partition(end)[2])
