"""Encoded records as a source of states: tasks that end at any borders, without a file."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from quorum_pipeline.compaction.record_run import run_of_values
from quorum_pipeline.deltas.contradiction import Contradiction
from quorum_pipeline.deltas.span import Span
from quorum_pipeline.deltas.summary import Summary
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.state.compiled_span import CompiledSpan
from quorum_pipeline.state.moment import Moment


@dataclass(frozen=True)
class ValuesTask:
    """Values of records from an offset on; compiled loops get `block` of them at once."""

    offset: int
    values: Sequence[bytes]
    block: int

    def compacted(self) -> tuple[CompiledSpan, Summary]:
        """As a task of a log does it."""
        found = CompiledSpan()
        for begin in range(0, len(self.values), self.block):
            some = self.values[begin : begin + self.block]
            offsets = np.arange(len(some)) + self.offset + begin
            found.add(run_of_values(some), offsets)
        return found, self._summary()

    def reduced(self) -> tuple[Span, Summary]:
        """As a task of a log does it."""
        found = Span()
        for offset, value in enumerate(self.values, self.offset):
            if not found.value(offset, value):
                return found, replace(self._summary(), stop=True, wrong=found.malformed)
        return found, self._summary()

    def _summary(self) -> Summary:
        end = self.offset + len(self.values)
        return Summary(self.offset, end, 1, 5, len(self.values))


@dataclass(frozen=True)
class ValuesPlan:
    """The tasks in order; by default one moment, at the end."""

    tasks: tuple[ValuesTask, ...]
    moments: tuple[int, ...] | None = None
    """Offsets at which tasks end."""
    name: str = "values"
    start_offset: int = 0

    @property
    def cuts(self) -> tuple[int, ...]:
        """How many tasks are before each moment."""
        if self.moments is None:
            return (len(self.tasks),)
        return tuple(sum(each.offset < end for each in self.tasks) for end in self.moments)

    def error(self, wrong: Contradiction) -> PipelineError:
        """With the offset."""
        return PipelineError(f"offset {wrong.offset}: {wrong.reason}")


@dataclass(frozen=True)
class ValuesSource:
    """A source with only this plan. `count`: of buckets."""

    found: ValuesPlan
    count: int = 3

    def plan(self, moments: Sequence[Moment], slots: int, *, compiled: bool) -> ValuesPlan:
        """The plan."""
        return self.found

    def buckets(self, slots: int) -> int:
        """As set."""
        return self.count


def plan_of(
    values: Sequence[bytes],
    borders: Sequence[int] = (),
    block: int = 1,
    moments: tuple[int, ...] | None = None,
) -> ValuesPlan:
    """Tasks that end at the borders and moments, and at the end."""
    inside = {each for each in (*borders, *(moments or ())) if each < len(values)} - {0}
    places = [0, *sorted(inside), len(values)]
    tasks = [
        ValuesTask(begin, values[begin:end], block)
        for begin, end in itertools.pairwise(places)
        if begin < end
    ]
    return ValuesPlan(tuple(tasks), moments)
