"""Deltas of the parts of a log, put together in any order, are the state of a node that replays the log."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.delta_checks import CUTS, SHORT, assert_as_a_node, merged
from support.delta_records import LOGS
from support.elr_histories import elr_histories


@SHORT
@given(LOGS, CUTS, st.integers(0, 99))
@pytest.mark.requirement("SP-03")
def test_any_split_and_merge_order_gives_the_same_state(
    values: list[bytes], cuts: list[int], seed: int
) -> None:
    assert_as_a_node(values, merged(values, cuts, seed))


@settings(SHORT, max_examples=6_000)
@given(LOGS, CUTS, st.integers(0, 99))
@pytest.mark.long
@pytest.mark.requirement("SP-03")
def test_any_split_and_merge_order_gives_the_same_state_for_many_examples(
    values: list[bytes], cuts: list[int], seed: int
) -> None:
    assert_as_a_node(values, merged(values, cuts, seed))


@SHORT
@given(elr_histories(), CUTS, st.integers(0, 99))
def test_cleared_eligible_leader_replicas_are_those_of_a_node(
    values: list[bytes], cuts: list[int], seed: int
) -> None:
    assert_as_a_node(values, merged(values, cuts, seed))
