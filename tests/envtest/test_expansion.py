"""Larger volumes on a real API server: claims are expanded where their class allows it, and the same replicas continue."""

from collections.abc import Iterator

import pytest

from support.envtest.environment import SharedQuorum
from support.envtest.kube_api import Json
from support.envtest.quorum import ApiServerQuorum
from support.envtest.volumes import DIRECTORY_CLASS
from support.kind_env import kube
from support.kind_env.waiting import wait_for

pytestmark = [pytest.mark.envtest, pytest.mark.long]

_CLASS = f"/apis/storage.k8s.io/v1/storageclasses/{DIRECTORY_CLASS}"


@pytest.fixture
def growing_class(shared_quorum: SharedQuorum) -> Iterator[None]:
    """For the time of a test: the class is shared by all tests of the session."""
    api = shared_quorum.env.api
    before = api.get(_CLASS).get("allowVolumeExpansion")
    api.merge(_CLASS, {"allowVolumeExpansion": True})
    yield
    api.merge(_CLASS, {"allowVolumeExpansion": before})


def sizes(quorum: ApiServerQuorum) -> set[str]:
    return {each["spec"]["resources"]["requests"]["storage"] for each in quorum.claims()}


def condition(quorum: ApiServerQuorum) -> dict[str, str]:
    found = quorum.status().get("conditions") or []
    return next((each for each in found if each["type"] == "StorageChanging"), {})


def reason(quorum: ApiServerQuorum) -> str:
    return condition(quorum).get("reason", "")


def message(quorum: ApiServerQuorum) -> str:
    return condition(quorum).get("message", "")


def set_status(quorum: ApiServerQuorum, claim: Json, status: Json) -> None:
    path = kube.core(quorum.namespace, "persistentvolumeclaims", claim["metadata"]["name"])
    quorum.api.merge(f"{path}/status", {"status": status})


@pytest.mark.usefixtures("growing_class")
def test_claims_are_expanded_in_place_without_a_restart(shared_quorum: SharedQuorum) -> None:
    quorum = shared_quorum.quorum
    keys, claims = quorum.wait_ready(3).keys, quorum.claims_by_uid()
    pods = {pod["metadata"]["uid"] for pod in quorum.pods()}
    quorum.patch({"storage": {"size": "300Mi", "storageClassName": DIRECTORY_CLASS}})
    wait_for("all claims ask for more", lambda: sizes(quorum) == {"300Mi"}, timeout_s=60)
    refused = {"type": "ControllerResizeError", "status": "True", "message": "the pool is full"}
    first, *_ = quorum.claims()
    set_status(quorum, first, {"conditions": [refused]})
    wait_for(
        "the condition of the claim is shown",
        lambda: reason(quorum) == "Expanding" and refused["message"] in message(quorum),
        timeout_s=60,
        seen=quorum.summary,
    )
    # The driver's part: the API server of the harness has none that expands volumes.
    for claim in quorum.claims():
        assert reason(quorum) == "Expanding"
        set_status(quorum, claim, {"capacity": {"storage": "300Mi"}, "conditions": []})
    wait_for("it is done", lambda: reason(quorum) == "AsWanted", timeout_s=60, seen=quorum.summary)
    assert quorum.wait_ready(3).keys == keys
    assert quorum.claims_by_uid() == claims
    assert {pod["metadata"]["uid"] for pod in quorum.pods()} == pods


def test_storage_class_without_expansion_is_reported_before_any_replacement(
    shared_quorum: SharedQuorum,
) -> None:
    quorum = shared_quorum.quorum
    claims = quorum.claims_by_uid()
    size = quorum.resource()["spec"]["storage"]["size"]
    larger = {"size": "400Mi", "storageClassName": DIRECTORY_CLASS}
    quorum.patch({"paused": True, "storage": larger})
    wait_for("the expansion is reported", lambda: reason(quorum) == "Replacing", timeout_s=60)
    quorum.patch({"storage": {**larger, "size": size}})
    wait_for("nothing is wanted", lambda: reason(quorum) == "AsWanted", timeout_s=60)
    quorum.patch({"paused": False})
    quorum.wait_ready(3)
    assert quorum.claims_by_uid() == claims


@pytest.mark.usefixtures("growing_class")
def test_claim_that_was_expanded_further_by_hand_is_not_asked_to_shrink(
    shared_quorum: SharedQuorum,
) -> None:
    """The API server refuses that, and the resource would be stuck with it."""
    quorum = shared_quorum.quorum
    keys = quorum.wait_ready(3).keys
    first, *_ = quorum.claims()
    path = kube.core(quorum.namespace, "persistentvolumeclaims", first["metadata"]["name"])
    quorum.api.merge(path, {"spec": {"resources": {"requests": {"storage": "900Mi"}}}})
    quorum.patch({"storage": {"size": "600Mi", "storageClassName": DIRECTORY_CLASS}})
    wait_for(
        "the others ask for more, and it for no less",
        lambda: sizes(quorum) == {"900Mi", "600Mi"},
        timeout_s=60,
        seen=lambda: sizes(quorum),
    )
    for claim in quorum.claims():
        capacity = claim["spec"]["resources"]["requests"]["storage"]
        set_status(quorum, claim, {"capacity": {"storage": capacity}, "conditions": []})
    wait_for("it is done", lambda: reason(quorum) == "AsWanted", timeout_s=60, seen=quorum.summary)
    assert quorum.condition_is("Refused", "False")
    assert quorum.wait_ready(3).keys == keys
