"""The table at the end, and what in it is not as it has to be."""

from collections.abc import Sequence
from dataclasses import dataclass

from support.kind_env.timeline import Step, table
from support.kind_env.tls_facts import TlsFacts
from support.workload.evaluation import Verdict, longest_gap_ms, unknown_outcomes
from support.workload.history import Event

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Report:
    """`under_load`: the steps during which writer and checker ran."""

    steps: Sequence[Step]
    under_load: Sequence[Step]
    writes: Sequence[Event]
    verdict: Verdict
    secured: TlsFacts

    def table(self) -> str:
        rows = [
            [
                step.name,
                f"{step.duration_s:.1f} s",
                "" if step.healthy_s is None else f"{step.healthy_s:.1f} s",
                f"{self._gap_s(step):.2f} s" if step in self.under_load else "",
            ]
            for step in self.steps
        ]
        steps = table(["step", "took", "to a healthy quorum", "longest write gap"], rows)
        verdict = self.verdict
        figures = [
            ["records acknowledged", str(verdict.acknowledged)],
            ["records lost", str(len(verdict.lost))],
            ["linearizable reads", str(verdict.reads)],
            ["stale reads", str(len(verdict.stale))],
            ["writes repeated, outcome unknown", str(unknown_outcomes(self.writes))],
            ["voter changes in the log", str(verdict.voter_changes)],
            ["of these two at once", str(len(verdict.double_steps))],
            ["replicas that differ", str(len(verdict.diverged))],
            ["members that speak TLS only", self.secured.text],
        ]
        return f"\n{steps}\n\n{table(['what was seen', ''], figures)}"

    @property
    def problems(self) -> list[str]:
        """Nothing here means that the demo showed what it is for."""
        found = [*self.verdict.problems[:_SHOWN], *self.secured.problems[:_SHOWN]]
        if self.verdict.acknowledged == 0:
            found.append("no record was acknowledged, so nothing was shown")
        if self.verdict.reads == 0:
            found.append("no linearizable read succeeded, so nothing was shown")
        return found

    def _gap_s(self, step: Step) -> float:
        return longest_gap_ms(self.writes, start_ms=step.start_ms, end_ms=step.end_ms) / 1000
