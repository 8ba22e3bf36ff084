"""Random appends, cuts, restarts and losses of power, beside a model that is a list of batches."""

from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from quorum_node.broker.batch import Batch
from quorum_node.storage.broker.batch_walk import batch_at
from quorum_node.storage.broker.log_loading import Known
from quorum_node.storage.broker.log_settings import LogSettings
from quorum_node.storage.broker.partition_log import PartitionLog
from quorum_node.storage.broker.producer_table import ProducerTable
from quorum_node.storage.broker.producer_walk import follow
from quorum_simulation.files.file_system import SimulatedFiles
from support.data_batches import data_batch, end_of_transaction

FOLDER = Path("/log/topic-0")
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
    known: Known = field(default_factory=Known)
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
            follow(table, batch_at(each.data, 0, 0, each.size_bytes), lambda each=each: each.data)
        return table


class Machine:
    """One log on a simulated disk, and its model."""

    def __init__(self, seed: int, *, shuffled: bool) -> None:
        self.random = Random(seed)
        self.files = SimulatedFiles(self.random, shuffled=shuffled)
        self.files.make_directories(FOLDER)
        self.model = Model(self.random)
        self.log = self.opened()

    def opened(self) -> PartitionLog:
        return PartitionLog.open(
            FOLDER,
            SETTINGS,
            self.model.known,
            files=self.files,
            clock_ms=lambda: self.model.now_ms,
            before_lowering=self.remember,
        )

    def remember(self, log: PartitionLog) -> None:
        self.model.known = Known(log.recovery_point, log.start_offset)

    def append(self) -> None:
        model = self.model
        if self.random.random() < 0.1:
            model.epoch += 1
        batches = []
        for _ in range(self.random.randrange(1, 5)):
            batches.append(model.next_batch())
            model.end = batches[-1].end_offset
        self.log.append(batches)
        model.batches += batches

    def cut(self) -> None:
        if self.model.end > self.model.start:
            end = self.random.randrange(self.model.start, self.model.end)
            self.log.truncate_to(end)
            self.model.cut(end)
            # What a leader of a newer epoch brings instead.
            self.model.epoch += 1

    def flush(self) -> None:
        self.log.flush()
        self.model.flushed = self.model.last_end
        if self.random.random() < 0.5:
            self.remember(self.log)

    def begin_later(self) -> None:
        """Retention or DeleteRecords; the checkpoint is written at once."""
        if self.model.flushed > self.model.start:
            start = self.random.randrange(self.model.start, self.model.flushed)
            self.log.delete_records_below(start)
            whole = [s for s in self.log.segments[1:] if s.base_offset <= start]
            self.log.delete_segments(len(whole))
            self.model.start = max(start, self.model.start)
            self.remember(self.log)

    def restart_behind(self) -> None:
        offset = self.model.end + self.random.randrange(1, 20)
        self.log.restart_at(offset)
        self.remember(self.log)
        self.model.batches = []
        self.model.start = self.model.end = self.model.flushed = offset
        self.model.open, self.model.sequences = {}, {}

    def stop_cleanly(self) -> None:
        self.log.close()
        self.model.flushed = self.model.last_end
        self.model.known = Known(self.log.recovery_point, self.log.start_offset, was_closed=True)
        self.files.end_process()
        if self.random.random() < 0.5:
            self.files.lose_power()
        self.reopen()

    def crash(self) -> None:
        if self.random.random() < 0.5:
            self.files.lose_power()
        else:
            self.files.end_process()
        self.reopen()

    def reopen(self) -> None:
        self.log = self.opened()
        self.model.known = Known(self.model.known.recovery_point, self.model.known.start_offset)
        model = self.model
        assert self.log.end_offset >= model.flushed, "what was flushed is there"
        assert self.log.end_offset <= model.end
        model.cut(self.log.end_offset)
        model.flushed = max(model.flushed, model.start)

    def check(self) -> None:
        """Every byte, by reads from everywhere."""
        log, model = self.log, self.model
        assert (log.start_offset, log.end_offset) == (model.start, model.end)
        readable = [each for each in model.batches if each.end_offset > model.start]
        offset, found = model.start, b""
        while offset < log.end_offset:
            data = log.read(offset, self.random.choice([1, 300, 5_000]))
            if not data:
                break
            found += data
            at = 0
            while at < len(data):
                batch = batch_at(data, at, at, len(data))
                at, offset = at + batch.size_bytes, batch.end_offset
        assert found == b"".join(each.data for each in readable)
        self.check_producers()
        for _ in range(3):
            offset = self.random.randrange(model.start, model.end + 1)
            holding = [each for each in readable if each.end_offset > offset]
            assert log.read(offset, 1) == (holding[0].data if holding else b"")

    def check_producers(self) -> None:
        """Sequences and open transactions are those that the batches say."""
        wanted = self.model.table()
        states = self.log._producers.states
        for producer_id, state in wanted.states.items():
            if state.batches and state.batches[-1].base_offset >= self.model.start:
                found = states[producer_id]
                assert found.batches[-1] == state.batches[-1]
                assert found.producer_epoch == state.producer_epoch
                if state.transaction_start >= self.model.start:
                    assert found.transaction_start == state.transaction_start


ACTS = (
    (Machine.append, 12),
    (Machine.cut, 2),
    (Machine.flush, 3),
    (Machine.begin_later, 1),
    (Machine.restart_behind, 0.3),
    (Machine.stop_cleanly, 1),
    (Machine.crash, 2),
)


def run(seed: int, steps: int) -> None:
    machine = Machine(seed, shuffled=seed % 2 == 1)
    acts = [act for act, _ in ACTS]
    weights = [weight for _, weight in ACTS]
    for _ in range(steps):
        machine.random.choices(acts, weights)[0](machine)
        machine.check()


@pytest.mark.parametrize("seed", range(12))
def test_a_log_is_what_its_model_is(seed: int) -> None:
    run(seed, 40)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 400))
def test_many_logs_are_what_their_models_are(seed: int) -> None:
    run(seed, 150)
