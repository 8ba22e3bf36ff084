"""JSON in annotations and termination messages that can be parsed but not used: no reconcile fails because of it."""

import asyncio
import json
from typing import Any

import pytest

from quorum_operator.desired import names
from quorum_operator.planner.backups import BackupRun, carried_on
from support.in_memory_kube_api import (
    NAME,
    SPACE,
    HealthyNodes,
    pod_path,
    reconciler,
    repeat,
    running_quorum,
    set_path,
)

IDENTITY = f"/api/v1/namespaces/{SPACE}/configmaps/demo-identity"
CLAIM = f"/api/v1/namespaces/{SPACE}/persistentvolumeclaims/data-demo-3-1-0"
DEEP = "[" * 5000
HALF = json.dumps({"reason": "\ud800", "message": "\udfff", "at": 1})
"""Half of a surrogate pair."""
NOW = 1_800_000_000.0


@pytest.mark.parametrize("note", [DEEP, HALF])
@pytest.mark.parametrize(
    ("path", "name"),
    [
        (IDENTITY, names.ANNOTATION_UPDATE),
        (set_path(3), names.ANNOTATION_STORAGE),
        (set_path(3), names.ANNOTATION_TAKEN_BACK),
        (CLAIM, names.ANNOTATION_STORAGE),
        (CLAIM, names.ANNOTATION_FAILED),
    ],
)
def test_annotation_that_is_unusable_json_fails_no_reconcile(
    path: str, name: str, note: str
) -> None:
    api = running_quorum(3)
    api.objects[path]["metadata"].setdefault("annotations", {})[name] = note
    made = reconciler(api, HealthyNodes(3))
    repeat(made, 3)
    json.dumps(api.status, ensure_ascii=False).encode()


@pytest.mark.parametrize("message", [DEEP, HALF])
def test_termination_message_that_is_unusable_json_fails_no_reconcile(message: str) -> None:
    api = running_quorum(3)
    ended = {"exitCode": 1, "message": message}
    container: dict[str, Any] = {"name": "node", "lastState": {"terminated": ended}, "state": {}}
    api.objects[pod_path(3)]["status"]["containerStatuses"] = [container]
    made = reconciler(api, HealthyNodes(3))
    asyncio.run(made.reconcile(SPACE, NAME))
    json.dumps(api.status, ensure_ascii=False).encode()


@pytest.mark.parametrize("message", [DEEP, HALF])
@pytest.mark.parametrize("good", [True, False])
def test_unreadable_output_of_a_backup_counts_as_none(message: str, good: bool) -> None:
    found = carried_on((BackupRun("job", NOW - 5, good, message),), None, NOW)
    assert found.name is None
    assert (found.last_success_at is not None) == good


@pytest.mark.parametrize("number", [2**63, -1, True, 1.5, "7", None])
def test_number_of_a_backup_that_the_api_server_refuses_is_left_out(number: object) -> None:
    """Otherwise no status could be written any more."""
    reported = json.dumps({"name": "b", "endOffset": number, "bytes": 2**63 - 1})
    found = carried_on((BackupRun("job", NOW - 5, True, reported),), None, NOW)
    assert (found.name, found.end_offset, found.size_bytes) == ("b", None, 2**63 - 1)
