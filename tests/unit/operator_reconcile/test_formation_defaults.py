"""Defaults of the formation in the real reconcile: recorded once, and kept if the identity is deleted or forged."""

import pytest

from quorum_operator.desired import names
from support.in_memory_kube_api import NAME, SPACE, InMemoryKubeApi, reconcile, running_quorum

IDENTITY = f"/api/v1/namespaces/{SPACE}/configmaps/{NAME}-identity"
CLAIM = f"/api/v1/namespaces/{SPACE}/persistentvolumeclaims/data-{NAME}-2-1-0"
ALL = "membership-off,resources,zones"


def formed_with(defaults: str) -> InMemoryKubeApi:
    """A quorum whose claims have these defaults; its identity is deleted."""
    api = running_quorum(3)
    notes = api.objects[CLAIM]["metadata"].setdefault("annotations", {})
    notes[names.ANNOTATION_DEFAULTS] = defaults
    del api.objects[IDENTITY]
    return api


@pytest.mark.parametrize("defaults", [ALL, "resources"])
def test_recreated_identity_keeps_the_defaults(defaults: str) -> None:
    api = formed_with(defaults)
    reconcile(api, times=6)
    assert api.objects[IDENTITY]["data"]["defaults"] == defaults


def test_recreated_identity_of_an_earlier_version_has_no_defaults() -> None:
    api = running_quorum(3)
    del api.objects[IDENTITY]
    reconcile(api, times=6)
    assert "defaults" not in api.objects[IDENTITY]["data"]
