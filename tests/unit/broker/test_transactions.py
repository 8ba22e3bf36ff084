"""Transactions in a partition: who may write, and which markers are taken."""

from quorum_node.broker.batch import Batch, Marker
from quorum_node.broker.errors import BrokerError
from quorum_node.broker.producers import Duplicate, ProducerStates

PRODUCER = 7


def batch(offset: int, sequence: int, epoch: int = 0, *, transactional: bool = True) -> Batch:
    """One record."""
    return Batch(
        offset, offset + 1, 0, 1, b"", PRODUCER, epoch, sequence, 1, is_transactional=transactional
    )


def marker(offset: int, epoch: int = 0, *, coordinator: int = 1, version: int = 0) -> Batch:
    """An abort; for these rules it is the same as a commit."""
    ended = Marker(is_abort=True, coordinator_epoch=coordinator, transaction_version=version)
    return Batch(
        offset, offset + 1, 0, 1, b"", PRODUCER, epoch, -1, 1, is_transactional=True, marker=ended
    )


def test_a_transaction_begins_with_a_guard_and_goes_on_without() -> None:
    states = ProducerStates()
    assert states.check(batch(0, 0)) is BrokerError.INVALID_TXN_STATE
    guard = states.guard(PRODUCER)
    assert states.guard(PRODUCER) == guard
    assert states.check(batch(0, 0), guard) is BrokerError.NONE
    states.append(batch(0, 0))
    assert states.has_open_transaction(PRODUCER)
    assert states.check(batch(1, 1)) is BrokerError.NONE
    states.append(marker(1))
    assert not states.has_open_transaction(PRODUCER)
    assert states.check(batch(2, 1)) is BrokerError.INVALID_TXN_STATE


def test_a_marker_takes_the_guard_of_a_batch_that_comes_too_late() -> None:
    states = ProducerStates()
    guard = states.guard(PRODUCER)
    states.append(marker(0))
    assert states.check(batch(1, 0), guard) is BrokerError.INVALID_TXN_STATE
    assert states.guard(PRODUCER) != guard


def test_a_marker_is_no_batch_of_the_producer() -> None:
    states = ProducerStates()
    states.append(batch(0, 0, transactional=False))
    states.append(marker(1))
    assert states.check(batch(2, 1, transactional=False)) is BrokerError.NONE
    assert states.check(batch(0, 0, transactional=False)) == Duplicate(0, 1)


def test_an_epoch_that_began_with_a_marker_begins_with_the_first_sequence() -> None:
    states = ProducerStates()
    states.append(batch(0, 0))
    states.append(marker(1, 1))
    assert states.check(batch(2, 1, 0)) is BrokerError.INVALID_PRODUCER_EPOCH
    guard = states.guard(PRODUCER)
    assert states.check(batch(2, 1, 1), guard) is BrokerError.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check(batch(2, 0, 1), guard) is BrokerError.NONE
    again = ProducerStates(states.snapshot())
    assert again.check(batch(2, 0, 1), again.guard(PRODUCER)) is BrokerError.NONE
    states.begin_at(2)


def test_an_open_transaction_takes_nothing_outside_of_it() -> None:
    states = ProducerStates()
    states.append(batch(0, 0))
    assert states.check(batch(1, 1, transactional=False)) is BrokerError.INVALID_TXN_STATE
    other = ProducerStates(states.snapshot())
    assert other.has_open_transaction(PRODUCER), "another leader knows it"


def test_markers_of_older_epochs_and_older_coordinators_are_refused() -> None:
    states = ProducerStates()
    states.append(batch(0, 0, 3))
    assert states.check(marker(1, 2)) is BrokerError.INVALID_PRODUCER_EPOCH
    assert states.check(marker(1, 3)) is BrokerError.NONE
    assert states.check(marker(1, 3, version=2)) is BrokerError.INVALID_PRODUCER_EPOCH
    assert states.check(marker(1, 4, version=2)) is BrokerError.NONE
    states.append(marker(1, 4, coordinator=5))
    assert states.check(marker(2, 4, coordinator=4)) is BrokerError.TRANSACTION_COORDINATOR_FENCED
    # Sent again, as its answer was lost: the transaction is over already.
    assert states.check(marker(2, 4, coordinator=5, version=2)) is BrokerError.NONE


def test_a_producer_with_an_open_transaction_is_not_forgotten() -> None:
    states = ProducerStates()
    states.append(batch(0, 0))
    states.expire(10**12)
    assert states.has_open_transaction(PRODUCER)
    states.append(marker(1))
    states.expire(10**12)
    assert states.snapshot() == ()
