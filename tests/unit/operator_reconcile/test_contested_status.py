"""The status is written although another client changes the resource's annotations all the time; newer specs and statuses are kept."""

import asyncio
from collections.abc import Callable

import pytest

from support.in_memory_kube_api import (
    NAME,
    SPACE,
    HealthyNodes,
    InMemoryKubeApi,
    reconciler,
    running_quorum,
)

Edit = Callable[[InMemoryKubeApi], None]


def _annotate(api: InMemoryKubeApi) -> None:
    api.resource["metadata"].setdefault("annotations", {})["beat"] = str(len(api.calls))
    api.touch(api.resource)


def _change_spec(api: InMemoryKubeApi) -> None:
    api.change_spec(retire=[9])


def _write_status(api: InMemoryKubeApi) -> None:
    api.resource["status"] = {"phase": "Degraded"}
    api.touch(api.resource)


def _reconciled(edit: Edit) -> InMemoryKubeApi:
    """After one reconcile during which another client has made an edit."""
    api = running_quorum(3)
    pending = [edit]

    def before_the_status(verb: str, path: str) -> None:
        if verb == "merge" and path.endswith("/status") and pending:
            pending.pop()(api)

    api.refuse = before_the_status
    asyncio.run(reconciler(api, HealthyNodes(3)).reconcile(SPACE, NAME))
    assert not pending
    return api


def test_status_is_written_beside_edits_of_annotations() -> None:
    """Otherwise the start of a suspicion in it would be lost each time, and no host would ever be away for long enough."""
    api = _reconciled(_annotate)
    assert api.status["phase"] == "Ready"
    assert api.resource["metadata"]["annotations"]["beat"]


@pytest.mark.parametrize("edit", [_change_spec, _write_status])
def test_status_of_an_older_resource_is_not_written(edit: Edit) -> None:
    assert _reconciled(edit).status.get("phase") in (None, "Degraded")


def test_status_of_a_deleted_resource_is_not_written() -> None:
    api = running_quorum(3)

    def delete(verb: str, path: str) -> None:
        if verb == "merge" and path.endswith("/status"):
            api.objects.pop(api.resource_path, None)

    api.refuse = delete
    asyncio.run(reconciler(api, HealthyNodes(3)).reconcile(SPACE, NAME))
    assert api.resource_path not in api.objects
