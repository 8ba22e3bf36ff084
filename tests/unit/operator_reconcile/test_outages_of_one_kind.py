"""Calls about one kind of object are not answered, such as behind a hung webhook: the others are still made, and it is reported."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from quorum_operator import report
from quorum_operator.desired import names
from quorum_operator.kube import observe
from quorum_operator.kube.errors import ApiError, Unavailable
from quorum_operator.unread import LASTING_OUTAGES
from support.in_memory_kube_api import (
    SPACE,
    HealthyNodes,
    InMemoryKubeApi,
    pod_path,
    reconcile,
    reconciler,
    repeat,
    running_quorum,
    set_path,
)
from support.secured_quorum import Env, leaf_path

HUNG = Unavailable(0, "ReadTimeout", "")
"""Of a webhook that answers later than the operator waits."""
CONFIG = f"/api/v1/namespaces/{SPACE}/configmaps/demo-config"
BACKUP = {"schedule": "@daily", "claimName": "backups"}


def refuse(api: InMemoryKubeApi, error: ApiError, verbs: str, part: str) -> None:
    def refused(verb: str, path: str) -> None:
        if verb in verbs.split() and part in path:
            raise error

    api.refuse = refused


@pytest.fixture
def api() -> InMemoryKubeApi:
    """Of a quorum with a failed disk."""
    made = running_quorum(5)
    owned = made.objects[set_path(4)]
    owned["spec"]["replicas"] = 0
    owned["metadata"]["annotations"] |= {
        names.ANNOTATION_FAILED: json.dumps({"reason": "StorageFailed", "at": 1}),
        names.ANNOTATION_STOPPED: "StorageFailed",
    }
    del made.objects[pod_path(4)]
    return made


NODES = HealthyNodes(5, silent=(4,))


def test_repair_goes_on_while_another_object_cannot_be_written(api: InMemoryKubeApi) -> None:
    api.objects[CONFIG]["data"] = {}
    refuse(api, HUNG, "merge apply", CONFIG)
    operator = reconciler(api, NODES)
    with pytest.raises(Unavailable):
        repeat(operator, 1)
    assert not api.condition("Refused"), "it may pass at once"
    repeat(operator, 1)
    assert api.created("statefulsets") == ["demo-4-2"]


def test_object_that_can_never_be_written_is_reported(
    api: InMemoryKubeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quorum_operator.attempts.delay_s", lambda times, first_s, most_s: 0.0)
    api.objects[CONFIG]["data"] = {}
    refuse(api, HUNG, "merge apply", CONFIG)
    operator = reconciler(api, NODES)
    for _ in range(3):
        with pytest.raises(Unavailable):
            repeat(operator, 1)
    monkeypatch.undo()
    with pytest.raises(Unavailable):
        repeat(operator, 1)
    repeat(operator, 1)
    refused = api.condition("Refused")
    assert (refused["status"], refused["reason"]) == ("True", "ServerError")
    assert "ConfigMap/demo-config: no answer (ReadTimeout)" in refused["message"]


def test_certificate_that_cannot_be_written_blocks_nothing_else() -> None:
    env = Env()
    env.settle()
    del env.api.objects[leaf_path(2)]
    env.api.writes.clear()
    refuse(env.api, HUNG, "create", "/secrets/")
    env.api.change_spec(tolerations=[{"key": "x", "operator": "Exists"}])
    operator = env.operator()
    with pytest.raises(Unavailable):
        env.looks(1, operator)
    env.looks(4, operator)
    patched = {path for verb, path in env.api.writes if verb == "patch"}
    assert patched == {set_path(each) for each in (1, 2, 3)}


@pytest.mark.parametrize("verb", ["apply", "list"])
def test_backup_that_cannot_be_written_or_read_is_reported(api: InMemoryKubeApi, verb: str) -> None:
    api.change_spec(backup=BACKUP)
    refuse(api, HUNG, verb, "/apis/batch/")
    reconcile(api, NODES, times=1)
    assert api.created("statefulsets") == ["demo-4-2"]
    found = api.condition("BackupCurrent")
    assert (found["status"], found["reason"]) == ("False", "Refused")


def test_failed_backups_are_still_counted_while_their_jobs_cannot_be_read() -> None:
    api = running_quorum(3)
    api.change_spec(backup=BACKUP)
    api.resource["status"] = {"backup": {"failures": 2, "since": "2026-01-01T00:00:00Z"}}
    refuse(api, HUNG, "list", "/apis/batch/")
    reconcile(api, times=1)
    assert api.status["backup"]["failures"] == 2


@pytest.fixture
def with_a_waiting_pod(api: InMemoryKubeApi) -> InMemoryKubeApi:
    """Of which only events could tell why its container does not run."""
    creating = {"state": {"waiting": {"reason": "ContainerCreating"}}}
    api.objects[pod_path(5)]["status"] = {"phase": "Pending", "containerStatuses": [creating]}
    return api


def test_repair_goes_on_without_the_storage_of_events(with_a_waiting_pod: InMemoryKubeApi) -> None:
    """Large clusters have one of its own for them."""
    refuse(with_a_waiting_pod, HUNG, "list create", "/events")
    reconcile(with_a_waiting_pod, HealthyNodes(5, silent=(4, 5)), times=1)
    assert with_a_waiting_pod.created("statefulsets") == ["demo-4-2"]


def test_events_without_an_answer_delay_a_repair_for_a_moment_only(
    with_a_waiting_pod: InMemoryKubeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = with_a_waiting_pod
    monkeypatch.setattr(observe, "EVENTS_S", 0.01)
    monkeypatch.setattr(report, "POST_S", 0.01)
    for name in ("find", "create"):
        monkeypatch.setattr(api, name, hanging_for_events(getattr(api, name)))
    reconcile(api, HealthyNodes(5, silent=(4, 5)), times=1)
    assert api.created("statefulsets") == ["demo-4-2"]


def hanging_for_events(call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def hang(path: str, *arguments: Any, **options: Any) -> Any:
        if path.endswith("/events"):
            await asyncio.Event().wait()
        return await call(path, *arguments, **options)

    return hang


def test_lasting_outage_of_reads_is_reported() -> None:
    """Such as of Secrets that the API server can't decrypt."""
    api = running_quorum(3)
    sealed = Unavailable(500, "InternalError", "unable to transform key")
    refuse(api, sealed, "get", "/secrets/")
    operator = reconciler(api, HealthyNodes(3))
    for look in range(LASTING_OUTAGES):
        assert not api.condition("Refused"), look
        with pytest.raises(Unavailable):
            repeat(operator, 1)
    refused = api.condition("Refused")
    assert (refused["status"], refused["reason"]) == ("True", "ServerError")
    assert "unable to transform key" in refused["message"]
    api.refuse = lambda verb, path: None
    repeat(operator, 2)
    assert api.condition("Refused")["status"] == "False"
