"""A debounce is as long as the spec says: the operator's clock is wrong, is set, and the operator restarts."""

import asyncio
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum_operator.desired import names
from quorum_operator.kube import paths
from quorum_operator.metrics import Metrics
from quorum_operator.reconcile import Reconciler
from support.kept_objects import (
    NAME,
    SPACE,
    KeptObjects,
    SoundNodes,
    pod_path,
    running_quorum,
    set_path,
)

SERVER_AT = 1_780_000_000.0
DEBOUNCE_S = 30


class Clocks:
    """The API server's, and the operator's own."""

    def __init__(self) -> None:
        self.at = SERVER_AT
        self.error_s = 0.0

    def server(self) -> float:
        return self.at

    def own(self) -> float:
        return self.at + self.error_s


@pytest.mark.requirement("OP-04")
@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    pauses=st.lists(st.sampled_from([2.0, 7.0, 11.0, 13.0]), min_size=3, max_size=9),
    errors=st.lists(st.sampled_from([-600.0, -40.0, 0.0, 40.0, 600.0]), min_size=10, max_size=10),
    restarted=st.lists(st.booleans(), min_size=10, max_size=10),
)
def test_the_debounce_is_measured_on_the_api_servers_clock(
    pauses: list[float], errors: list[float], restarted: list[bool]
) -> None:
    asyncio.run(_debounced(pauses, errors, restarted))


async def _debounced(pauses: list[float], errors: list[float], restarted: list[bool]) -> None:
    """The host of member 3 is gone; the own clock shows another wrong time at every look."""
    api = running_quorum(3, repair={"debounceSeconds": DEBOUNCE_S})
    del api.objects[f"{paths.NODES}/h3"]
    del api.objects[pod_path(3)]
    unchecked: Any = api
    clocks, operator = Clocks(), None
    for pause_s, error_s, restart in zip([0.0, *pauses], errors, restarted, strict=False):
        clocks.at, clocks.error_s = clocks.at + pause_s, error_s
        if operator is None or restart:
            operator = Reconciler(
                unchecked, SoundNodes(3, silent=(3,)), Metrics(), clock=clocks.server
            )
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(time, "time", clocks.own)
            await operator.reconcile(SPACE, NAME)
        lasted_s = clocks.at - SERVER_AT
        assert lasted_s >= DEBOUNCE_S or not _latched(api), lasted_s
        assert lasted_s < DEBOUNCE_S + 1 or _latched(api), lasted_s


def _latched(api: KeptObjects) -> bool:
    return names.ANNOTATION_FAILED in api.objects[set_path(3)]["metadata"]["annotations"]
