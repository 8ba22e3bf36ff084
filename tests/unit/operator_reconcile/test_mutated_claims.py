"""The API server, or an admission webhook, stores another class or size in a StatefulSet than the operator has sent."""

from collections.abc import Callable
from typing import Any

import pytest

from quorum_operator.kube import paths
from support.in_memory_kube_api import (
    HealthyNodes,
    InMemoryKubeApi,
    Object,
    reconcile,
    running_quorum,
)

SENT = {"size": "1Gi", "storageClassName": "local"}


def other_class(claim: Object) -> None:
    """As a policy of the cluster does that prescribes a class."""
    claim["storageClassName"] = "prescribed"


def other_size(claim: Object) -> None:
    """As the API server does with a size beyond 2**63 - 1 bytes."""
    claim["resources"]["requests"]["storage"] = "9223372036854775807"


def storing(api: InMemoryKubeApi, change: Callable[[Object], None]) -> None:
    create = api.create

    async def changing(path: str, body: Object) -> Object:
        for each in body.get("spec", {}).get("volumeClaimTemplates", []):
            change(each["spec"])
        return await create(path, body)

    unchecked: Any = api
    unchecked.create = changing


@pytest.mark.parametrize("change", [other_class, other_size])
def test_member_is_created_once_although_its_claim_is_stored_differently(
    change: Callable[[Object], None],
) -> None:
    """It is on the storage that was asked for: another one would be stored in the same way."""
    api, nodes = running_quorum(3, storage=SENT), HealthyNodes(3)
    storing(api, change)
    api.change_spec(replicas=5)
    reconcile(api, nodes, times=8)
    assert api.created("statefulsets") == ["demo-4-1", "demo-5-1"]
    assert api.condition("StorageChanging")["status"] == "False"


def test_members_move_to_a_class_that_they_do_not_have_yet() -> None:
    api, nodes = running_quorum(3, storage=SENT), HealthyNodes(3)
    storing(api, other_class)
    api.change_spec(replicas=5)
    reconcile(api, nodes, times=8)
    for name, moving in (("prescribed", "demo-1-1, demo-2-1, demo-3-1:"), ("third", "demo-4-1")):
        api.objects[paths.storage_class(name)] = {"metadata": {"name": name, "labels": {}}}
        api.change_spec(storage={**SENT, "storageClassName": name})
        reconcile(api, nodes, times=1)
        found = api.condition("StorageChanging")
        assert found["reason"] == "Replacing"
        assert moving in found["message"]
