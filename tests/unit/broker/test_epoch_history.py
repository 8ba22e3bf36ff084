"""Leader epochs of a log, and where two logs part."""

import pytest

from quorum_node.broker.epoch_history import EpochEnd, EpochHistory, truncation_offset

STARTS = ((1, 0), (3, 10), (6, 25))


@pytest.mark.parametrize(
    ("requested", "found"),
    [
        (6, EpochEnd(6, 40)),
        (5, EpochEnd(3, 25)),
        (3, EpochEnd(3, 25)),
        (2, EpochEnd(1, 10)),
        (0, EpochEnd(0, 0)),
        (7, None),
        (-1, None),
    ],
)
def test_end_offset_is_that_of_the_largest_epoch_not_above_the_requested_one(
    requested: int, found: EpochEnd | None
) -> None:
    assert EpochHistory(STARTS).end_of(requested, 40) == found


def test_epoch_without_records_is_replaced_by_the_next_one() -> None:
    history = EpochHistory(STARTS)
    history.enter(7, 40)
    history.enter(8, 40)
    assert history.starts == (*STARTS, (8, 40))
    history.cut_end(40)
    assert list(history.starts) == list(STARTS)


def test_deleted_records_move_the_start_of_the_epoch_at_the_new_log_start() -> None:
    history = EpochHistory(STARTS)
    history.cut_start(12)
    assert history.starts == ((3, 12), (6, 25))
    history.cut_start(11)
    assert history.starts == ((3, 12), (6, 25))


@pytest.mark.requirement("KV3-09")
@pytest.mark.parametrize(
    ("leader", "cut_to"),
    [
        # The leader ended the shared epoch earlier, or later.
        (EpochEnd(6, 30), 30),
        (EpochEnd(6, 60), 40),
        # An epoch in between that is not in the own log: back to the end of the older one.
        (EpochEnd(5, 28), 25),
        (EpochEnd(2, 15), 10),
        # Newer than everything here.
        (EpochEnd(9, 33), 33),
    ],
)
def test_truncation_offset_of_a_follower(leader: EpochEnd, cut_to: int) -> None:
    assert truncation_offset(EpochHistory(STARTS), 40, leader) == cut_to


def test_two_diverging_logs_converge_after_a_few_requests() -> None:
    """Fast leader changes: each log has epochs that the other one lacks (KIP-279)."""
    mine, my_end = EpochHistory(((1, 0), (2, 10), (4, 20))), 30
    theirs, their_end = EpochHistory(((1, 0), (3, 8), (5, 12))), 40
    questions = 0
    while True:
        answer = theirs.end_of(mine.latest, their_end)
        assert answer is not None
        if answer.epoch == mine.latest and answer.end_offset >= my_end:
            break
        my_end = truncation_offset(mine, my_end, answer)
        mine.cut_end(my_end)
        questions += 1
    assert (my_end, mine.starts, questions) == (8, ((1, 0),), 2)
