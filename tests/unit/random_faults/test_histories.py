"""Each kind of damage that a round could reveal is reported, and a correct history is not."""

import copy
from collections.abc import Callable

import pytest

from quorum_node.protocol.fetch import AbortedTransaction
from quorum_node.records.batches import Batch, split_batches
from support.data_batches import data_batch, end_of_transaction
from support.random_faults.histories import Content, Entry, Round, Sent, Transaction, problems
from support.random_faults.replicas import visible

PLAIN, MOVED = ("plain", 0), ("moved", 0)
A, B = 201, 202


def values(count: int, producer: str = "plain") -> list[bytes]:
    return [f"{producer}|{number}|".encode() for number in range(count)]


def content(*entries: Entry, start: int = 0, hidden: tuple[int, ...] = ()) -> Content:
    """`hidden`: offsets that a read_committed consumer does not see."""
    return Content(
        start,
        entries[-1][0] + 1,
        tuple((offset + 1, b"batch " + value) for offset, value in entries),
        entries,
        tuple(each for each in entries if each[0] not in hidden),
    )


def correct() -> Round:
    """Four records of a producer, two transactions, of which the second one was aborted, on two brokers."""
    plain, moved = values(4), values(2, "moved")
    plain_log = content(*enumerate(plain))
    moved_log = content((0, moved[0]), (2, moved[1]), hidden=(2,))
    return Round(
        sent=[
            Sent("plain", PLAIN, plain, dict(enumerate(plain))),
            Sent("moved", MOVED, moved, {0: moved[0], 2: moved[1]}),
        ],
        transactions=[
            Transaction(True, sent=[(MOVED, moved[0])]),
            Transaction(False, sent=[(MOVED, moved[1])]),
        ],
        received={PLAIN: list(enumerate(plain)), MOVED: [(0, moved[0])]},
        replicas={
            PLAIN: {A: plain_log, B: copy.deepcopy(plain_log)},
            MOVED: {A: moved_log, B: copy.deepcopy(moved_log)},
        },
    )


def test_correct_history_has_no_problems() -> None:
    assert problems(correct()) == []


def everywhere(history: Round, name: tuple[str, int], now: Content) -> None:
    for broker_id in (A, B):
        history.replicas[name][broker_id] = now


def lost(history: Round) -> None:
    everywhere(history, PLAIN, content(*enumerate(values(3))))
    history.received[PLAIN].pop()


def lost_without_offset(history: Round) -> None:
    (sent, _) = history.sent
    sent.unplaced.append(sent.acknowledged.pop(2))
    first, second, _, last = enumerate(values(4))
    everywhere(history, PLAIN, content(first, second, last))
    history.received[PLAIN].pop(2)


def doubled(history: Round) -> None:
    everywhere(history, PLAIN, content(*enumerate(values(4)), (4, values(4)[3])))
    history.received[PLAIN].append((4, values(4)[3]))


def disordered(history: Round) -> None:
    (sent, _) = history.sent
    order = [0, 2, 1, 3]
    entries = [(offset, values(4)[number]) for offset, number in enumerate(order)]
    sent.acknowledged = dict(entries)
    everywhere(history, PLAIN, content(*entries))
    history.received[PLAIN] = entries


def invented(history: Round) -> None:
    everywhere(history, PLAIN, content(*enumerate(values(5))))
    history.received[PLAIN].append((4, values(5)[4]))


def unequal_bytes(history: Round) -> None:
    first = history.replicas[PLAIN][A]
    end, _ = first.batches[-1]
    history.replicas[PLAIN][B] = Content(
        0, 4, (*first.batches[:-1], (end, b"other")), first.everything, first.committed
    )


def shorter_replica(history: Round) -> None:
    history.replicas[PLAIN][B] = content(*enumerate(values(3)))


def aborted_is_visible(history: Round) -> None:
    history.replicas[MOVED][B] = content((0, values(2, "moved")[0]), (2, values(2, "moved")[1]))


def committed_is_hidden(history: Round) -> None:
    moved = values(2, "moved")
    everywhere(history, MOVED, content((0, moved[0]), (2, moved[1]), hidden=(0, 2)))
    history.received[MOVED] = []


def half_of_an_unfinished_transaction(history: Round) -> None:
    moved = values(2, "moved")
    history.transactions = [Transaction(None, sent=[(MOVED, moved[0]), (MOVED, moved[1])])]


def aborted_was_received(history: Round) -> None:
    history.received[MOVED].append((2, values(2, "moved")[1]))


def received_twice(history: Round) -> None:
    history.received[PLAIN][2:2] = [(0, values(4)[0])]


def received_what_vanished(history: Round) -> None:
    history.received[PLAIN][3] = (3, b"plain|9|")


def not_received(history: Round) -> None:
    history.received[PLAIN].pop(1)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lost, "acknowledged records are missing: 1, at [3]"),
        (lost_without_offset, "acknowledged records are missing: 1, such as b'plain|2|'"),
        (doubled, "records are there more than once: 1"),
        (disordered, "records are out of order"),
        (invented, "records that nobody sent"),
        (unequal_bytes, "differ in batches that end at [4]"),
        (shorter_replica, "high watermarks differ"),
        (aborted_is_visible, "shows aborted one"),
        (committed_is_hidden, "hides a committed one"),
        (half_of_an_unfinished_transaction, "shows half of an unfinished one"),
        (aborted_was_received, "the consumer received an aborted one"),
        (received_twice, "the position went back: [(1, 0)]"),
        (received_what_vanished, "received records that are not in the log: 1, at [3]"),
        (not_received, "did not receive: 1 records, at [1]"),
    ],
)
def test_damage_is_reported(damage: Callable[[Round], None], says: str) -> None:
    history = correct()
    damage(history)
    assert any(says in each for each in problems(history)), problems(history)


def test_deleted_records_are_not_missed() -> None:
    history = correct()
    everywhere(history, PLAIN, content(*list(enumerate(values(4)))[2:], start=2))
    history.received[PLAIN].pop(1)
    assert problems(history) == []


def test_whole_transaction_with_unknown_end_is_visible_or_not() -> None:
    for hidden in ((), (0, 2)):
        history = correct()
        moved = values(2, "moved")
        history.transactions = [Transaction(None, sent=[(MOVED, each) for each in moved])]
        everywhere(history, MOVED, content((0, moved[0]), (2, moved[1]), hidden=hidden))
        seen = {0: moved[0], 2: moved[1]}
        history.received[MOVED] = [each for each in seen.items() if each[0] not in hidden]
        assert problems(history) == []


def test_record_of_a_producer_that_is_not_idempotent_may_be_there_twice() -> None:
    history = correct()
    doubled(history)
    history.sent[0].in_order = False
    assert problems(history) == []


def batches(*data: bytes | memoryview) -> list[Batch]:
    return split_batches(b"".join(bytes(each) for each in data))[0]


def test_records_of_aborted_transactions_are_passed_over_up_to_their_markers() -> None:
    def of(offset: int, producer_id: int) -> bytes:
        batch = data_batch(offset, producer_id=producer_id, sequence=0, transactional=True)
        assert isinstance(batch.data, bytes)
        return batch.data

    def marker(offset: int, producer_id: int, *, abort: bool) -> bytes:
        batch = end_of_transaction(offset, producer_id, abort=abort)
        assert isinstance(batch.data, bytes)
        return batch.data

    log = batches(
        of(0, 7),
        of(1, 8),
        marker(2, 7, abort=True),
        of(3, 7),
        marker(4, 8, abort=False),
        marker(5, 7, abort=False),
    )
    aborted = [AbortedTransaction(producer_id=7, first_offset=0)]
    assert [offset for offset, _ in visible(log, aborted)] == [1, 3]
    assert [offset for offset, _ in visible(log, [])] == [0, 1, 3]
