"""Quorums that were formed without certificates, under an operator with certificates by default."""

import asyncio
import copy

import pytest

from quorum_operator.desired import names
from quorum_operator.remembered import PodAccess
from support.in_memory_kube_api import NAME, OWNER, SPACE, HealthyNodes, reconciler, running_quorum

IDENTITY = f"/api/v1/namespaces/{SPACE}/configmaps/demo-identity"


@pytest.mark.parametrize("silent", [(), (1, 2, 3)])
def test_missing_identity_does_not_create_certificates(silent: tuple[int, ...]) -> None:
    """New quorums have them by default. An earlier one without them gets no object that claims otherwise."""
    api = running_quorum(3)
    del api.objects[IDENTITY]
    service = next(path for path in api.objects if path.endswith("/services/demo-admin"))
    ports = copy.deepcopy(api.objects[service]["spec"]["ports"])
    api.objects[service]["spec"]["ports"] = []
    made = reconciler(api, HealthyNodes(3, silent=silent))

    async def run() -> None:
        for _ in range(6):
            await made.reconcile(SPACE, NAME)
            assert api.objects[service]["spec"]["ports"] in ([], ports)

    asyncio.run(run())
    assert "tls" not in (api.objects.get(IDENTITY) or {"data": {}})["data"]
    assert not [path for path in api.objects if path.endswith(("-ca-1", "-trust", "-tls"))]


@pytest.mark.parametrize("damaged", [True, False])
def test_note_of_tls_on_a_claim_closes_no_member_that_runs_in_clear_text(damaged: bool) -> None:
    """Over TLS the members could not be called, and without their answers the identity would never be recreated."""
    api = running_quorum(3)
    made = reconciler(api, HealthyNodes(3))
    if damaged:
        api.objects[IDENTITY]["data"] = {}
    else:
        del api.objects[IDENTITY]
    for path, each in api.objects.items():
        if "/persistentvolumeclaims/" in path:
            each["metadata"].setdefault("annotations", {})[names.ANNOTATION_TLS] = "true"

    async def run() -> None:
        for _ in range(6):
            await made.reconcile(SPACE, NAME)
            assert made.access_to(OWNER) == PodAccess()

    asyncio.run(run())
    assert "tls" not in api.objects[IDENTITY]["data"]
    assert api.objects[IDENTITY]["data"]["clusterId"]
