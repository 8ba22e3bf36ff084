"""Quorums that were formed without certificates, under an operator with certificates by default."""

import asyncio
import copy

import pytest

from support.in_memory_kube_api import NAME, SPACE, SoundNodes, reconciler, running_quorum

IDENTITY = f"/api/v1/namespaces/{SPACE}/configmaps/demo-identity"


@pytest.mark.parametrize("silent", [(), (1, 2, 3)])
def test_missing_identity_does_not_create_certificates(silent: tuple[int, ...]) -> None:
    """New quorums have them by default. An earlier one without them gets no object that claims otherwise."""
    api = running_quorum(3)
    del api.objects[IDENTITY]
    service = next(path for path in api.objects if path.endswith("/services/demo-admin"))
    ports = copy.deepcopy(api.objects[service]["spec"]["ports"])
    api.objects[service]["spec"]["ports"] = []
    made = reconciler(api, SoundNodes(3, silent=silent))

    async def run() -> None:
        for _ in range(6):
            await made.reconcile(SPACE, NAME)
            assert api.objects[service]["spec"]["ports"] in ([], ports)

    asyncio.run(run())
    assert "tls" not in (api.objects.get(IDENTITY) or {"data": {}})["data"]
    assert not [path for path in api.objects if path.endswith(("-ca-1", "-trust", "-tls"))]
