"""Idempotent producers: duplicates, gaps, epochs, wrap-around, expiry."""

import pytest

from quorum_node.broker.batch import SEQUENCES
from quorum_node.broker.errors import BrokerError
from quorum_node.broker.events import StartOffsetMoved
from quorum_node.broker.outputs import ProduceAnswered
from quorum_node.broker.producers import Duplicate, ProducerStates
from support.replica_env import ME, batch, leading

P = 77
EXPIRATION_MS = 5_000
OUT_OF_ORDER = BrokerError.OUT_OF_ORDER_SEQUENCE_NUMBER


def after(*batches: object) -> ProducerStates:
    states = ProducerStates()
    for each in batches:
        states.append(each)  # type: ignore[arg-type]
    return states


def test_next_batch_is_accepted_and_the_last_five_are_known_as_duplicates() -> None:
    written = [batch(10 * n, 2, 0, P, 2 * n) for n in range(7)]
    states = after(*written)
    assert states.check(batch(0, 2, -1, P, 14)) is BrokerError.NONE
    for each in written[2:]:
        again = batch(0, 2, -1, P, each.base_sequence)
        assert states.check(again) == Duplicate(each.base_offset, each.end_offset)
    assert states.check(batch(0, 2, -1, P, 2)) is OUT_OF_ORDER


@pytest.mark.parametrize(("count", "sequence"), [(1, 3), (3, 0), (1, 0), (2, 5)])
def test_sequence_gap_or_overlap_is_out_of_order(count: int, sequence: int) -> None:
    assert after(batch(0, 2, 0, P, 0)).check(batch(0, count, -1, P, sequence)) is OUT_OF_ORDER


def test_unknown_producer_may_start_at_any_sequence_and_batches_without_producer_are_accepted() -> (
    None
):
    states = ProducerStates()
    assert states.check(batch(0, 1, -1, P, 12)) is BrokerError.NONE
    assert states.check(batch(0, 1, -1)) is BrokerError.NONE
    states.append(batch(0, 1, 0))
    assert states.snapshot() == ()


def test_new_epoch_starts_at_0_and_an_older_one_is_fenced() -> None:
    states = after(batch(0, 2, 0, P, 0)._replace(producer_epoch=4))
    newer = batch(0, 1, -1, P, 0)._replace(producer_epoch=5)
    assert states.check(newer) is BrokerError.NONE
    assert states.check(newer._replace(base_sequence=2)) is OUT_OF_ORDER
    assert states.check(newer._replace(producer_epoch=3)) is BrokerError.INVALID_PRODUCER_EPOCH
    states.append(newer)
    assert len(states.snapshot()[0].batches) == 1, (
        "what was written in the last epoch is no duplicate"
    )


def test_sequence_numbers_wrap_around() -> None:
    states = after(batch(0, 4, 0, P, SEQUENCES - 2))
    assert states.check(batch(0, 1, -1, P, 2)) is BrokerError.NONE
    assert states.check(batch(0, 4, -1, P, SEQUENCES - 2)) == Duplicate(0, 4)


def test_snapshot_contains_the_whole_state() -> None:
    states = after(batch(0, 2, 0, P, 0), batch(2, 2, 0, P, 2), batch(4, 1, 0, P + 1, 0))
    again = ProducerStates(states.snapshot())
    assert again.check(batch(0, 2, -1, P, 0)) == Duplicate(0, 2)
    assert again.snapshot() == states.snapshot()


def test_retry_of_a_deleted_batch_is_a_duplicate() -> None:
    """Kafka Streams deletes records as soon as they are read, also below a producer that still repeats its requests."""
    env = leading(isr=(ME,))
    for sequence in range(3):
        env.produce(producer=P, sequence=sequence)
        env.write()
    env.step(StartOffsetMoved(3))
    env.produce(producer=P, sequence=0)
    answer = env.one(ProduceAnswered)
    assert (answer.error, answer.base_offset) == (BrokerError.NONE, 0)
    assert env.appended == []


def test_idle_producers_expire() -> None:
    states = after(batch(0, 1, 0, P, 0)._replace(max_timestamp_ms=1000))
    states.expire(999 + EXPIRATION_MS, EXPIRATION_MS)
    assert states.snapshot()
    states.expire(1000 + EXPIRATION_MS, EXPIRATION_MS)
    assert states.snapshot() == ()
