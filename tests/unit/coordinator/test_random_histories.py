"""Whatever members, the log and the clock do: what a coordinator promises holds, and another one can go on."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.group_history import OF_CLIENTS, WAITS_MS, run

ACTS = st.one_of(
    *(st.tuples(st.just(name), st.integers(0, 3)) for name in OF_CLIENTS),
    st.tuples(st.just("wait"), st.sampled_from(WAITS_MS)),
    st.tuples(st.just("store"), st.just(0)),
    st.tuples(st.just("fail"), st.integers(0, 1)),
    st.tuples(st.just("move"), st.just(0)),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ACTS, max_size=40))
def test_invariants_hold_for_any_history_of_a_group(acts: list[tuple[str, int]]) -> None:
    run(acts)


@pytest.mark.long
@settings(max_examples=3000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ACTS, min_size=20, max_size=120))
def test_invariants_hold_for_thousands_of_histories_of_a_group(acts: list[tuple[str, int]]) -> None:
    run(acts)
