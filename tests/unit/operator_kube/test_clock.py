"""The operator uses the API server's clock, whatever its own shows."""

import asyncio
import json
from email.utils import formatdate
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum_operator.kube import client
from quorum_operator.kube.clock import ServerClock
from quorum_operator.kube.errors import ApiError

pytestmark = pytest.mark.requirement("OP-04")
SETTINGS = settings(max_examples=200, deadline=None, derandomize=True)
SERVER_AT = 1_780_000_000.4
"""What the server's clock shows when the operator's monotonic clock shows 0."""


@SETTINGS
@given(
    own_error_s=st.floats(-900, 900),
    answers=st.lists(
        st.tuples(st.floats(0.1, 60), st.floats(0, 0.2), st.floats(0, 0.2)), min_size=1, max_size=20
    ),
)
def test_clock_follows_the_server_independent_of_the_local_clock(
    own_error_s: float, answers: list[tuple[float, float, float]]
) -> None:
    """Of each answer: the time since the last one, and how long the request and the answer travel."""
    at = 0.0
    clock = ServerClock(lambda: at, lambda: SERVER_AT + at + own_error_s)
    assert clock.now() == SERVER_AT + at + own_error_s, "before any answer there is no other"
    for pause_s, there_s, back_s in answers:
        at += pause_s
        begun = clock.begin()
        at += there_s
        date = formatdate(int(SERVER_AT + at), usegmt=True)
        at += back_s
        clock.observe(date, begun)
        assert abs(clock.now() - (SERVER_AT + at)) <= 1.0 + there_s + back_s
    before = clock.now()
    at += 30.0
    assert clock.now() - before == pytest.approx(30.0)


@SETTINGS
@given(st.lists(st.floats(0.01, 3.0), min_size=2, max_size=50))
def test_responses_of_a_steady_server_adjust_the_clock_by_less_than_its_resolution(
    pauses: list[float],
) -> None:
    at, shown = 0.0, []
    clock = ServerClock(lambda: at, lambda: 0.0)
    for pause_s in pauses:
        at += pause_s
        clock.observe(formatdate(int(SERVER_AT + at), usegmt=True), clock.begin())
        shown.append(clock.now() - at)
    assert max(shown) - min(shown) <= 1.0
    assert shown[-1] == pytest.approx(SERVER_AT, abs=1.0)


def test_clock_follows_a_server_whose_clock_was_changed() -> None:
    clock = ServerClock(lambda: 100.0, lambda: 0.0)
    for set_to in (SERVER_AT, SERVER_AT - 500, SERVER_AT + 500):
        clock.observe(formatdate(int(set_to), usegmt=True), 100.0)
        assert clock.now() == pytest.approx(set_to, abs=1.0)


@pytest.mark.parametrize("date", [None, "", "soon", "Thu, 99 Foo 2026 00:00:00 GMT"])
def test_malformed_date_header_is_ignored(date: str | None) -> None:
    clock = ServerClock(lambda: 5.0, lambda: 7.0)
    clock.observe(date, 5.0)
    assert clock.now() == 7.0


@pytest.mark.parametrize("status", [200, 404, 409, 500])
def test_every_api_server_response_updates_the_clock(status: int) -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        headers = {"Date": formatdate(SERVER_AT, usegmt=True)}
        return httpx.Response(status, content=json.dumps({"items": []}), headers=headers)

    configuration: Any = SimpleNamespace(host="http://api", get_api_key_with_prefix=lambda _: None)
    api = client.KubeApi(configuration)
    api._http = httpx.AsyncClient(base_url="http://api", transport=httpx.MockTransport(answer))

    async def ask() -> float:
        try:
            await api.get("/x")
        except ApiError:
            pass
        return api.clock.now()

    assert asyncio.run(ask()) == pytest.approx(SERVER_AT, abs=1.5)
