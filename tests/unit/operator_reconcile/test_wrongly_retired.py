"""A user marks the authority that signs as retired: it stays trusted, and the mark is removed."""

from typing import Any

import pytest

from quorum_operator.certificates.documents import ANNOTATION_RETIRED
from support.secured_quorum import Env, bundle_in, leaf_path, secret_path

AUTHORITY = secret_path("demo-ca-1")
BROKER = {"name": "broker-7", "role": "broker", "nodeId": 7}


def notes(env: Env) -> dict[str, Any]:
    found: dict[str, Any] = env.api.objects[AUTHORITY]["metadata"].setdefault("annotations", {})
    return found


@pytest.mark.parametrize("identities", [[], [BROKER]])
def test_signing_authority_marked_as_retired_by_a_user_goes_on_signing(
    identities: list[dict[str, Any]],
) -> None:
    env = Env()
    env.api.change_spec(tls={"mode": "Managed", "identities": identities})
    env.settle()
    before = dict(env.nodes.loaded)
    notes(env)[ANNOTATION_RETIRED] = "true"
    env.nodes.stuck = {3}
    env.looks(8)
    assert notes(env).get(ANNOTATION_RETIRED) is None
    assert env.nodes.loaded == before
    assert secret_path("demo-ca-2") not in env.api.objects
    (trusted,) = bundle_in(env.api.objects[leaf_path(1)])
    assert trusted.common_name == "quorum CA 1"
    events = [each["message"] for each in env.api.events if each["reason"] == "RemoveRetiredMark"]
    assert events == [
        "Secret/demo-ca-1: authority 1 is marked as retired, but its certificates may be in use"
    ]
