"""Random appends, cuts, restarts and losses of power, beside a model that is a list of batches."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import cast

import pytest

from quorum_node.broker.batch import Batch
from quorum_node.storage.broker import producer_copies
from quorum_node.storage.broker.batch_walk import batch_at
from quorum_node.storage.broker.log_loading import Known
from quorum_node.storage.broker.log_settings import LogSettings
from quorum_node.storage.broker.partition_log import PartitionLog
from quorum_node.storage.broker.producer_table import ProducerTable
from quorum_node.storage.broker.producer_walk import follow
from quorum_simulation.files.file_system import PowerLost, SimulatedFiles
from support.data_batches import data_batch, end_of_transaction

FOLDER = Path("/log/topic-0")
INTERVALS = (100, 600, producer_copies.INTERVAL_BYTES)
"""Between copies of the state of producers: about every batch, several in a segment, and none."""
SETTINGS = LogSettings(segment_bytes=2_000, index_interval_bytes=200, file_delete_delay_ms=50)


@dataclass
class Model:
    """What the log has to hold. `flushed`: what no loss of power may take."""

    random: Random
    batches: list[Batch] = field(default_factory=list)
    start: int = 0
    end: int = 0
    flushed: int = 0
    epoch: int = 0
    now_ms: int = 1_000
    open: dict[int, int] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)

    def next_batch(self) -> Batch:
        random = self.random
        self.now_ms += random.randrange(20)
        offset = self.end + (random.randrange(3) if random.random() < 0.1 else 0)
        kind = random.random()
        producer_id = random.randrange(4)
        if kind < 0.15 and self.open:
            producer_id = random.choice(sorted(self.open))
            del self.open[producer_id]
            return end_of_transaction(
                offset, producer_id, abort=random.random() < 0.5, epoch=self.epoch
            )
        count = random.randrange(1, 6)
        if kind < 0.5:
            producer_id = -1
        elif kind < 0.8 and producer_id not in self.open:
            self.open[producer_id] = offset
        sequence = self.sequences.get(producer_id, 0) if producer_id >= 0 else -1
        self.sequences[producer_id] = sequence + count
        return data_batch(
            offset,
            count,
            epoch=self.epoch,
            producer_id=producer_id,
            sequence=sequence,
            transactional=producer_id in self.open,
            timestamp_ms=self.now_ms - random.randrange(50),
            value_bytes=random.randrange(1, 120),
        )

    def copied(self) -> "Model":
        return replace(
            self, batches=self.batches[:], open=dict(self.open), sequences=dict(self.sequences)
        )

    @property
    def last_end(self) -> int:
        return self.batches[-1].end_offset if self.batches else self.start

    def cut(self, end: int) -> None:
        self.batches = [each for each in self.batches if each.end_offset <= end]
        self.end = end
        self.flushed = min(self.flushed, self.last_end)
        self._recount()

    def _recount(self) -> None:
        self.open, self.sequences = {}, {}
        for state in self.table().states.values():
            if state.transaction_start >= 0:
                self.open[state.producer_id] = state.transaction_start
            if state.batches:
                self.sequences[state.producer_id] = state.batches[-1].last_sequence + 1

    def table(self) -> ProducerTable:
        table = ProducerTable()
        for each in self.batches:
            data = cast(bytes, each.data)
            follow(table, batch_at(data, 0, 0, len(data)), lambda data=data: data)  # type: ignore[misc]
        return table


Act = tuple[Model, Callable[[], object]]
"""What the log has to hold afterwards, and how it comes to that."""


class Machine:
    """One log on a simulated disk, and its model."""

    def __init__(self, seed: int, *, shuffled: bool) -> None:
        self.random = Random(seed)
        self.files = SimulatedFiles(self.random, shuffled=shuffled)
        self.files.make_directories(FOLDER)
        self.known = Known()
        self.model = Model(self.random)
        self.log = self.opened()

    def opened(self) -> PartitionLog:
        return PartitionLog.open(
            FOLDER,
            SETTINGS,
            self.known,
            files=self.files,
            clock_ms=lambda: self.model.now_ms,
            before_lowering=self.remember,
        )

    def remember(self, log: PartitionLog) -> None:
        self.known = Known(log.recovery_point, log.start_offset)

    def append(self) -> Act:
        model = self.model.copied()
        if self.random.random() < 0.1:
            model.epoch += 1
        batches = []
        for _ in range(self.random.randrange(1, 5)):
            batches.append(model.next_batch())
            model.end = batches[-1].end_offset
        model.batches += batches
        return model, lambda: self.log.append(batches)

    def cut(self) -> Act:
        model = self.model.copied()
        if model.end <= model.start:
            return self.append()
        end = self.random.randrange(model.start, model.end)
        model.cut(end)
        # What a leader of a newer epoch brings instead.
        model.epoch += 1
        return model, lambda: self.log.truncate_to(end)

    def flush(self) -> Act:
        model = self.model.copied()
        model.flushed = model.last_end

        def act() -> None:
            self.log.flush()
            if self.random.random() < 0.5:
                self.remember(self.log)

        return model, act

    def begin_later(self) -> Act:
        """Retention or DeleteRecords; the checkpoint is written at once."""
        model = self.model.copied()
        if model.flushed <= model.start:
            return self.append()
        start = model.start = self.random.randrange(model.start, model.flushed)

        def act() -> None:
            self.log.delete_records_below(start)
            whole = [s for s in self.log.segments[1:] if s.base_offset <= start]
            assert self.log.delete_segments(self.log.segments[: len(whole)]) is bool(whole)
            self.remember(self.log)

        return model, act

    def restart_behind(self) -> Act:
        model = self.model.copied()
        offset = model.end + self.random.randrange(1, 20)
        model.batches, model.open, model.sequences = [], {}, {}
        model.start = model.end = model.flushed = offset

        def act() -> None:
            self.log.restart_at(offset)
            self.remember(self.log)

        return model, act

    def remove(self) -> Act:
        return self.model.copied(), lambda: self.log.remove_deleted()

    def stop_cleanly(self) -> None:
        self.log.close()
        self.model.flushed = self.model.last_end
        self.known = Known(self.log.recovery_point, self.log.start_offset, was_closed=True)
        self.files.end_process()
        if self.random.random() < 0.5:
            self.files.lose_power()
        self.reopen([self.model])

    def crash(self) -> None:
        if self.random.random() < 0.5:
            self.files.lose_power()
        else:
            self.files.end_process()
        self.reopen([self.model])

    def crash_inside(self) -> None:
        """Power goes in the middle of a change, or at its end."""
        before = self.model
        after, act = self.random.choice(CHANGES)(self)
        self.files.calls_left = self.random.randrange(12)
        try:
            act()
        except PowerLost:
            after.flushed = before.flushed
        self.files.calls_left = None
        # A deletion may be incomplete; in a log that was to be reset, all of it.
        before.flushed = min(before.flushed, after.last_end if after.batches else 0)
        self.files.lose_power()
        self.reopen([after, before])

    def reopen(self, models: list[Model]) -> None:
        """The log is a beginning of what one of the models holds, at least what was flushed."""
        self.log = self.opened()
        self.known = Known(self.known.recovery_point, self.known.start_offset)
        log = self.log
        # Of two that have the same records, only one has the right state of the producers, that of hidden records included.
        for model in sorted(models, key=lambda each: each.start != log.start_offset):
            wanted = [each for each in model.batches if each.end_offset <= log.end_offset]
            wanted = [each for each in wanted if each.end_offset > log.start_offset]
            if model.flushed <= log.end_offset <= model.end and self.stored() == joined(wanted):
                model.cut(log.end_offset)
                model.start = log.start_offset
                model.flushed = max(min(model.flushed, model.end), model.start)
                self.model = model
                return
        spans = [[(b.base_offset, b.end_offset, b.leader_epoch) for b in m.batches] for m in models]
        raise AssertionError(
            f"{log.start_offset} to {log.end_offset}, flushed {[m.flushed for m in models]},"
            f" ends {[m.end for m in models]}, batches {spans}, notes {log.notes}"
        )

    def stored(self) -> bytes:
        log, offset, found = self.log, self.log.start_offset, b""
        while data := log.read(offset, self.random.choice([1, 300, 5_000])):
            found += data
            at = 0
            while at < len(data):
                batch = batch_at(data, at, at, len(data))
                at, offset = at + batch.size_bytes, batch.end_offset
        return found

    def change(self) -> None:
        self.model, act = self.random.choices(CHANGES, WEIGHTS)[0](self)
        act()

    def check(self) -> None:
        """Every byte, by reads from everywhere."""
        log, model = self.log, self.model
        assert (log.start_offset, log.end_offset) == (model.start, model.end)
        readable = [each for each in model.batches if each.end_offset > model.start]
        assert self.stored() == joined(readable)
        self.check_producers()
        for _ in range(3):
            offset = self.random.randrange(model.start, model.end + 1)
            holding = [each for each in readable if each.end_offset > offset]
            assert log.read(offset, 1) == (holding[0].data if holding else b"")

    def check_producers(self) -> None:
        """Sequences and open transactions equal those of the batches."""
        wanted = self.model.table()
        states = self.log._producers.states
        for producer_id, state in wanted.states.items():
            if state.batches and state.batches[-1].base_offset >= self.model.start:
                found = states[producer_id]
                assert found.batches == state.batches[-len(found.batches) :]
                assert found.producer_epoch == state.producer_epoch
                if state.transaction_start >= self.model.start:
                    assert found.transaction_start == state.transaction_start


CHANGES = (
    Machine.append,
    Machine.cut,
    Machine.flush,
    Machine.begin_later,
    Machine.restart_behind,
    Machine.remove,
)
WEIGHTS = (12, 2, 3, 1, 0.3, 0.5)


def joined(batches: list[Batch]) -> bytes:
    return b"".join(cast(bytes, each.data) for each in batches)


def run(seed: int, steps: int) -> None:
    machine = Machine(seed, shuffled=seed % 2 == 1)
    for _ in range(steps):
        chance = machine.random.random()
        if chance < 0.85:
            machine.change()
        elif chance < 0.9:
            machine.stop_cleanly()
        elif chance < 0.95:
            machine.crash()
        else:
            machine.crash_inside()
        machine.check()


@pytest.mark.parametrize("interval_bytes", INTERVALS)
@pytest.mark.parametrize("seed", range(12))
def test_log_equals_its_model(
    seed: int, interval_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_copies, "INTERVAL_BYTES", interval_bytes)
    run(seed, 40)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 400))
def test_many_logs_equal_their_models(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_copies, "INTERVAL_BYTES", INTERVALS[seed % len(INTERVALS)])
    run(seed, 150)
