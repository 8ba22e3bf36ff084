"""Transactions in a partition: who may write, and which markers are taken."""

from quorum_node.broker.batch import Batch, Marker
from quorum_node.broker.errors import BrokerError
from quorum_node.broker.producers import Duplicate, ProducerStates

PRODUCER = 7
EXPIRATION_MS = 86_400_000


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


def guard_of(
    states: ProducerStates, sequence: int = 0, epoch: int = 0, *, adds: bool = False
) -> int:
    """The guard of a batch."""
    return states.guard(batch(0, sequence, epoch), 0, adds=adds)


def test_transaction_starts_with_a_verification_guard_and_continues_without() -> None:
    states = ProducerStates()
    assert states.check(batch(0, 0)) is BrokerError.INVALID_TXN_STATE
    guard = guard_of(states)
    assert guard_of(states) == guard
    assert states.check(batch(0, 0), guard) is BrokerError.NONE
    states.append(batch(0, 0))
    assert states.has_open_transaction(PRODUCER, 0)
    assert states.check(batch(1, 1)) is BrokerError.NONE
    states.append(marker(1))
    assert not states.has_open_transaction(PRODUCER, 0)
    assert states.check(batch(2, 1)) is BrokerError.INVALID_TXN_STATE


def test_marker_invalidates_the_guard_of_a_late_batch() -> None:
    states = ProducerStates()
    guard = guard_of(states)
    states.append(marker(0))
    assert states.check(batch(1, 0), guard) is BrokerError.INVALID_TXN_STATE
    assert guard_of(states) != guard


def test_marker_does_not_count_as_a_batch_of_the_producer() -> None:
    states = ProducerStates()
    states.append(batch(0, 0, transactional=False))
    states.append(marker(1))
    assert states.check(batch(2, 1, transactional=False)) is BrokerError.NONE
    assert states.check(batch(0, 0, transactional=False)) == Duplicate(0, 1)


def test_epoch_that_starts_with_a_marker_continues_with_the_first_sequence() -> None:
    states = ProducerStates()
    states.append(batch(0, 0))
    states.append(marker(1, 1))
    assert states.check(batch(2, 1, 0)) is BrokerError.INVALID_PRODUCER_EPOCH
    guard = guard_of(states)
    assert states.check(batch(2, 1, 1), guard) is BrokerError.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check(batch(2, 0, 1), guard) is BrokerError.NONE
    again = ProducerStates(states.snapshot())
    assert again.check(batch(2, 0, 1), guard_of(again)) is BrokerError.NONE


def test_marker_whose_record_was_compacted_changes_nothing() -> None:
    """As when the state is rebuilt from the log. A coordinator that was replaced must stay fenced."""
    states = ProducerStates()
    states.append(batch(0, 0, transactional=False))
    states.append(marker(1, coordinator=5))
    before = states.snapshot()
    states.append(marker(2, epoch=1, coordinator=-1))
    assert states.snapshot() == before
    late = marker(3, coordinator=4)
    assert states.check(late) is BrokerError.TRANSACTION_COORDINATOR_FENCED


def test_open_transaction_rejects_batches_outside_of_it() -> None:
    states = ProducerStates()
    states.append(batch(0, 0))
    assert states.check(batch(1, 1, transactional=False)) is BrokerError.INVALID_TXN_STATE
    other = ProducerStates(states.snapshot())
    assert other.has_open_transaction(PRODUCER, 0), "the other leader has no state of it"


def test_markers_of_older_producer_or_coordinator_epochs_are_rejected() -> None:
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


def test_marker_of_the_last_epoch_ends_the_transaction_of_that_epoch() -> None:
    """There is no later epoch that the coordinator could give it (KAFKA-20090); otherwise it would stay open for ever."""
    last = 32_767
    states = ProducerStates()
    states.append(batch(0, 0, last - 1))
    assert states.check(marker(1, last - 1, version=2)) is BrokerError.INVALID_PRODUCER_EPOCH
    states = ProducerStates()
    states.append(batch(0, 0, last))
    assert states.has_open_transaction(PRODUCER, last)
    assert states.check(marker(1, last - 1, version=2)) is BrokerError.INVALID_PRODUCER_EPOCH
    assert states.check(marker(1, last, version=2)) is BrokerError.NONE
    states.append(marker(1, last, coordinator=5, version=2))
    assert not states.has_open_transaction(PRODUCER, last)
    # Sent again, as its answer was lost (KAFKA-19999).
    assert states.check(marker(2, last, coordinator=5, version=2)) is BrokerError.NONE
    assert (
        states.check(marker(2, last, coordinator=4)) is BrokerError.TRANSACTION_COORDINATOR_FENCED
    )


def test_producer_with_an_open_transaction_does_not_expire() -> None:
    states = ProducerStates()
    states.append(batch(0, 0))
    states.expire(10**12, EXPIRATION_MS)
    assert states.has_open_transaction(PRODUCER, 0)
    states.append(marker(1))
    states.expire(10**12, EXPIRATION_MS)
    assert states.snapshot() == ()


def test_batch_of_a_newer_epoch_is_not_part_of_an_open_transaction() -> None:
    """With transaction version 2 each transaction has its own epoch, and its first batch may come before the marker of the
    transaction before. Without a verification it would be committed or aborted with that one.
    """
    states = ProducerStates()
    states.check(batch(0, 0), guard_of(states))
    states.append(batch(0, 0))
    assert states.has_open_transaction(PRODUCER, 0)
    assert not states.has_open_transaction(PRODUCER, 1)
    assert states.check(batch(1, 0, 1)) is BrokerError.INVALID_TXN_STATE
    states.append(marker(1, 1, version=2))
    assert states.check(batch(2, 0, 1), guard_of(states, epoch=1)) is BrokerError.NONE


def test_batch_does_not_overtake_an_earlier_one_under_verification() -> None:
    """The verification of the first may fail temporarily: appended before it, the second one would leave a gap."""
    states = ProducerStates()
    first, second = guard_of(states, 5), guard_of(states, 6)
    assert states.check(batch(0, 6), second) is BrokerError.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check(batch(0, 5), first) is BrokerError.NONE
    states.append(batch(0, 5))
    assert states.check(batch(1, 6), second) is BrokerError.NONE


def test_other_epoch_is_verified_separately() -> None:
    states = ProducerStates()
    guard_of(states, 5)
    guard = guard_of(states, 9, epoch=1)
    assert guard_of(states, 0, epoch=0) == guard, "a late batch changes nothing"
    assert states.check(batch(0, 9, 1), guard) is BrokerError.NONE


def test_unknown_producer_starts_with_the_first_sequence_if_each_transaction_has_its_epoch() -> None:  # fmt: skip
    states = ProducerStates()
    assert states.check(batch(0, 3), guard_of(states, 3)) is BrokerError.NONE
    guard = guard_of(states, 3, adds=True)
    assert states.check(batch(0, 3), guard) is BrokerError.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check(batch(0, 0), guard_of(states, 0, adds=True)) is BrokerError.NONE


def test_guards_of_producers_without_batches_expire() -> None:
    states = ProducerStates()
    guard = guard_of(states)
    states.expire(EXPIRATION_MS - 1, EXPIRATION_MS)
    assert states.check(batch(0, 0), guard) is BrokerError.NONE
    states.expire(EXPIRATION_MS, EXPIRATION_MS)
    assert states.check(batch(0, 0), guard) is BrokerError.INVALID_TXN_STATE


def test_guard_from_before_a_truncation_is_never_reused() -> None:
    """The late answer to a verification would let a batch into another transaction."""
    states = ProducerStates()
    old = guard_of(states)
    later = ProducerStates(states.snapshot(), states)
    assert later.check(batch(0, 0), old) is BrokerError.INVALID_TXN_STATE
    guard_of(later)
    assert later.check(batch(0, 0), old) is BrokerError.INVALID_TXN_STATE
