"""A debounce takes the time of the spec although the operator's clock is wrong, is changed, and the operator restarts."""

import asyncio
import time
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum_operator.desired import names
from quorum_operator.kube import paths
from quorum_operator.kube.errors import Forbidden
from quorum_operator.metrics import Metrics
from quorum_operator.reassign import ReassignmentReconciler
from quorum_operator.reassignment_crd import REASSIGNMENT_PLURAL
from quorum_operator.reconcile import Reconciler
from quorum_operator.turns import Turns
from support.in_memory_kube_api import (
    NAME,
    SPACE,
    HealthyNodes,
    InMemoryKubeApi,
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
@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    pauses=st.lists(st.sampled_from([2.0, 7.0, 11.0, 13.0]), min_size=3, max_size=9),
    errors=st.lists(st.sampled_from([-600.0, -40.0, 0.0, 40.0, 600.0]), min_size=10, max_size=10),
    restarted=st.lists(st.booleans(), min_size=10, max_size=10),
)
def test_debounce_is_measured_on_the_api_server_clock(
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
                unchecked, HealthyNodes(3, silent=(3,)), Metrics(), clock=clocks.server
            )
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(time, "time", clocks.own)
            await operator.reconcile(SPACE, NAME)
        lasted_s = clocks.at - SERVER_AT
        assert lasted_s >= DEBOUNCE_S or not _latched(api), lasted_s
        assert lasted_s < DEBOUNCE_S + 1 or _latched(api), lasted_s


@pytest.mark.parametrize("error_s", [-86_400.0, 86_400.0])
@pytest.mark.requirement("OP-04")
def test_timestamps_in_status_and_objects_use_the_api_server_clock(
    error_s: float,
) -> None:
    api, clocks = running_quorum(3), Clocks()
    clocks.error_s = error_s
    nodes = HealthyNodes(3)
    nodes.refusing = {"10.0.0.2"}
    unchecked: Any = api
    operator = Reconciler(unchecked, nodes, Metrics(), clock=clocks.server)

    def refuse(verb: str, path: str) -> None:
        if verb == "list":
            raise Forbidden(403, "Forbidden", "no")

    async def run() -> None:
        for _ in range(3):
            await operator.reconcile(SPACE, NAME)
            clocks.at += 400.0
        assert {path for verb, path in api.writes if verb == "delete"} == {pod_path(2)}
        api.refuse = refuse
        with pytest.raises(Forbidden):
            await operator.reconcile(SPACE, NAME)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(time, "time", clocks.own)
        asyncio.run(run())
    condition = api.condition("Refused")
    _assert_reported_in_time(api, clocks, condition["lastTransitionTime"])


@pytest.mark.parametrize("error_s", [-86_400.0, 86_400.0])
@pytest.mark.requirement("OP-04")
def test_reassignment_timestamps_use_the_api_server_clock(error_s: float) -> None:
    api, clocks = running_quorum(3), Clocks()
    clocks.error_s = error_s
    path = paths.namespaced(REASSIGNMENT_PLURAL, SPACE, "r")
    moves = [{"topic": "t", "partition": 0, "replicas": [1]}]
    api.objects[path] = {
        "metadata": {"name": "r", "namespace": SPACE, "uid": "u", "generation": 1},
        "spec": {"quorum": "no-such-quorum", "partitions": moves},
    }
    api.objects[path]["metadata"]["resourceVersion"] = "1"
    api.objects[path]["status"] = {"phase": "Running"}
    unchecked: Any = api
    turns = Turns(lambda place: None)
    operator = ReassignmentReconciler(unchecked, unchecked, Metrics(), turns, clocks.server)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(time, "time", clocks.own)
        asyncio.run(operator.reconcile(SPACE, "r"))
    reported = [each["lastTransitionTime"] for each in api.objects[path]["status"]["conditions"]]
    _assert_reported_in_time(api, clocks, *reported)


def _assert_reported_in_time(api: InMemoryKubeApi, clocks: Clocks, *texts: str) -> None:
    assert api.events
    for text in (*texts, *(each["lastTimestamp"] for each in api.events)):
        at = datetime.fromisoformat(text).timestamp()
        assert SERVER_AT - 1 <= at <= clocks.at + 1, text


def _latched(api: InMemoryKubeApi) -> bool:
    return names.ANNOTATION_FAILED in api.objects[set_path(3)]["metadata"]["annotations"]
