"""Times and numbers that were edited, or that are beyond the calendar: no reconcile fails because of them."""

import copy
import json
from typing import Any

import pytest

from quorum_operator.desired import names
from support.in_memory_kube_api import (
    SPACE,
    InMemoryKubeApi,
    pod_path,
    reconcile,
    running_quorum,
    set_path,
    time_text,
)

NO_TIMES = ["", "soon", "2026-13-01T00:00:00Z", "yesterday at noon"]
CLAIM = f"/api/v1/namespaces/{SPACE}/persistentvolumeclaims/data-demo-3-1-0"
LONGEST = "9999999d"
"""The longest time that the definition accepts: 27 000 years."""


def with_a_failed_member(note: str, **storage: str) -> InMemoryKubeApi:
    """Its disk failed, its successor is a voter."""
    api = running_quorum(3, storage={"size": "1Gi", "storageClassName": "local", **storage})
    failed = api.objects[set_path(3)]
    failed["spec"]["replicas"] = 0
    stopped = {names.ANNOTATION_FAILED: note, names.ANNOTATION_STOPPED: "StorageFailed"}
    failed["metadata"]["annotations"] |= {**stopped, names.ANNOTATION_UUID: "U0"}
    del api.objects[pod_path(3)]
    successor = copy.deepcopy(failed)
    successor["metadata"] |= {"name": "demo-3-2", "uid": "uid-3-2"}
    notes = successor["metadata"]["annotations"]
    del notes[names.ANNOTATION_FAILED], notes[names.ANNOTATION_STOPPED]
    notes[names.ANNOTATION_UUID] = "U3"
    successor["metadata"]["labels"][names.LABEL_INCARNATION] = "2"
    api.objects[set_path(3, 2)] = successor
    return api


@pytest.mark.parametrize("wrong", NO_TIMES)
def test_edited_time_in_the_status_is_rewritten(wrong: str) -> None:
    api = running_quorum(3, backup={"schedule": "0 0 * * *", "claimName": "backups"})
    reconcile(api)
    found = api.status
    for each in found["conditions"]:
        each |= {"lastTransitionTime": wrong, "status": "False"}
    for each in found["members"]:
        sign = {"reason": "HostDeleted", "subject": "pv1", "since": wrong}
        each |= {"unreachableSince": wrong, "suspected": sign}
    found["backup"] |= {"lastSuccessAt": wrong, "lastFailureAt": wrong, "since": wrong}
    found["plan"]["since"] = wrong
    found["repairs"] = [{"id": 3, "incarnation": 9, "reason": "x", "startedAt": wrong}]
    reconcile(api)
    assert (api.status["phase"], api.condition("Refused")["status"]) == ("Ready", "False")
    assert wrong not in [each["lastTransitionTime"] for each in api.status["conditions"]]


@pytest.mark.parametrize("at", ["1e300", "-1e300", "NaN", "Infinity", "9" * 400, "null", "[]"])
def test_edited_time_in_a_failure_mark_keeps_the_mark(at: str) -> None:
    api = with_a_failed_member(f'{{"reason": "StorageFailed", "at": {at}}}')
    reconcile(api)
    assert api.status["phase"]
    assert "Failed" in api.status["keptVolumes"][0]["reason"]
    assert not api.created("statefulsets")


@pytest.mark.parametrize("note", ["by hand", '{"reason": "StorageFailed", "at": "long ago"}', "{}"])
def test_volume_with_an_unknown_failure_time_is_kept(note: str) -> None:
    """Its age compared with spec.storage.keepFailedFor is unknown."""
    api = with_a_failed_member(note, keepFailedFor="1h")
    _start_again(api)
    reconcile(api, times=6)
    assert api.status["phase"] == "Ready"
    assert set_path(3) in api.objects
    assert "deletedAfter" not in api.status["keptVolumes"][0]
    uids = [each.get("uid") for each in api.objects[CLAIM]["metadata"].get("ownerReferences") or ()]
    assert api.objects[set_path(3)]["metadata"]["uid"] not in uids


def _start_again(api: InMemoryKubeApi) -> None:
    """The successor runs, on a claim of its own."""
    successor = api.objects[set_path(3, 2)]
    successor["spec"]["replicas"] = 1
    pod = copy.deepcopy(successor["spec"]["template"])
    pod["metadata"] |= {"name": "demo-3-2-0", "namespace": SPACE, "uid": "uid-pod-3-2"}
    pod["metadata"] |= {"creationTimestamp": time_text(999), "resourceVersion": "9"}
    owner = {"kind": "StatefulSet", "name": "demo-3-2", "uid": "uid-3-2", "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]
    running: dict[str, Any] = {
        "podIP": "10.0.0.32",
        "containerStatuses": [{"state": {"running": {}}}],
    }
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"}
    api.objects[pod_path(3, 2)] = {**pod, "status": {**running, **ready}}
    claim = copy.deepcopy(api.objects[CLAIM])
    claim["metadata"] |= {"name": "data-demo-3-2-0", "uid": "uid-claim-3-2", "annotations": {}}
    claim["metadata"]["labels"][names.LABEL_INCARNATION] = "2"
    api.objects[CLAIM.replace("3-1-0", "3-2-0")] = claim


def test_longest_retention_of_volumes_may_exceed_the_calendar() -> None:
    note = json.dumps({"reason": "StorageFailed", "at": 1_700_000_000})
    api = with_a_failed_member(note, keepFailedFor=LONGEST)
    reconcile(api)
    assert api.status["keptVolumes"][0]["deletedAfter"] == "9999-12-31T23:59:59Z"
    assert api.condition("Refused")["status"] == "False"


@pytest.mark.parametrize("note", [names.ANNOTATION_REPLACES, names.ANNOTATION_FORMATION])
def test_oversized_number_is_ignored(note: str) -> None:
    api = running_quorum(3)
    for path in (set_path(2), CLAIM):
        api.objects[path]["metadata"].setdefault("annotations", {})[note] = "1" * 5000
    reconcile(api)
    assert api.status["phase"] == "Ready"


@pytest.mark.parametrize("note", ["", "no such member", "x" * 5000, "demo-1-1-0", "other-1-1"])
def test_predecessor_that_is_no_member_is_ignored(note: str) -> None:
    api = running_quorum(3, podTemplate={"zoneSpread": "Required"})
    reconcile(api)
    before = copy.deepcopy(api.objects[set_path(2)]["spec"]["template"])
    notes = api.objects[set_path(2)]["metadata"]["annotations"]
    notes[names.ANNOTATION_PREDECESSOR] = note
    reconcile(api)
    assert (api.status["phase"], api.condition("Refused")["status"]) == ("Ready", "False")
    assert api.objects[set_path(2)]["spec"]["template"] == before


@pytest.mark.parametrize("at", ["1e300", "NaN", "9" * 400])
def test_edited_time_in_the_update_record_drops_the_record(at: str) -> None:
    api = running_quorum(3, update={"soakSeconds": 60})
    reconcile(api)
    path = f"/api/v1/namespaces/{SPACE}/configmaps/demo-identity"
    message = f'{{"revision": "x", "parts": {{}}, "tried": "y", "outcome": "Failed", "at": {at}}}'
    api.objects[path]["metadata"]["annotations"][names.ANNOTATION_UPDATE] = message
    reconcile(api)
    assert (api.status["phase"], api.condition("Refused")["status"]) == ("Ready", "False")


FUTURE = "9998-01-01T00:00:00Z"


def test_a_time_in_the_future_is_not_waited_for() -> None:
    """It was edited, or the clock was set back. The recovery of a lost quorum, for example, counts from it."""
    api = running_quorum(3, backup={"schedule": "0 0 * * *", "claimName": "backups"})
    reconcile(api)
    for each in api.status["conditions"]:
        each["lastTransitionTime"] = FUTURE
    api.status["backup"] |= {"lastSuccessAt": FUTURE, "lastFailureAt": FUTURE, "since": FUTURE}
    reconcile(api)
    assert FUTURE not in json.dumps(api.status["conditions"])
    assert FUTURE not in json.dumps(api.status["backup"])


@pytest.mark.parametrize("since", [FUTURE, "9999-12-31T23:59:59Z"])
def test_a_member_is_unreachable_since_no_later_than_now(since: str) -> None:
    api = running_quorum(3, repair={"unreachableAfterSeconds": 300})
    reconcile(api)
    pod = api.objects[pod_path(3)]
    pod["status"] |= {"conditions": [{"type": "Ready", "status": "False"}]}
    host = api.objects["/api/v1/nodes/h3"]
    host["status"] = {"conditions": [{"type": "Ready", "status": "False"}]}
    reconcile(api, silent=(3,))
    (member,) = [each for each in api.status["members"] if each["id"] == 3]
    member["unreachableSince"] = since
    reconcile(api, silent=(3,))
    (member,) = [each for each in api.status["members"] if each["id"] == 3]
    assert member["unreachableSince"] < FUTURE
    assert api.condition("Refused")["status"] == "False"
