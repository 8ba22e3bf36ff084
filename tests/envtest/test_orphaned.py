"""`kubectl delete --cascade=orphan`, and applied again: nothing is changed before it is confirmed, and then no pod restarts."""

import time

import pytest

from support.envtest.environment import Env
from support.envtest.http_proxy import RecordingProxy
from support.envtest.moves import Adoption, Before, orphan, owners
from support.kind_env.waiting import wait_for

pytestmark = [pytest.mark.envtest, pytest.mark.requirement("OP-07")]

_MOST_CALLS = 600
"""For an adoption. At 0.2 a second that is what a quorum at rest makes in an hour; a loop makes it within seconds."""
_LOOK_S = 10.0
_CALLS_PER_S = 8.0
_CHANGES = ("POST", "PUT", "PATCH", "DELETE")


def changes(proxy: RecordingProxy, since: int) -> set[str]:
    """What was changed, but for events and the status."""
    return {
        f"{call.method} {call.path}"
        for call, _ in proxy.to_api[since:]
        if call.method in _CHANGES and not call.path.endswith(("/events", "/status"))
    }


@pytest.mark.long
def test_orphaned_objects_are_adopted_after_confirmation(env: Env) -> None:
    operator, proxy = env.add_operator()
    operator.start()
    quorum = env.create(3)
    before = Before.of(quorum)
    cluster_id = quorum.status()["clusterId"]
    orphan(quorum)
    since = len(proxy.to_api)
    env.quorums.remove(quorum)
    again = env.apply(3)

    def asked() -> bool:
        found = again.status().get("conditions") or []
        return any(c["status"] == "True" and cluster_id in c["message"] for c in found)

    wait_for("a person is asked", asked, timeout_s=60, seen=again.summary)
    began, calls = time.monotonic(), len(proxy.to_api)
    time.sleep(_LOOK_S)
    assert (len(proxy.to_api) - calls) / (time.monotonic() - began) < _CALLS_PER_S
    assert owners(again) == {""}
    assert changes(proxy, since) == set(), "changed before the administrator decided"
    again.patch({"earlierClaims": {"policy": "Adopt", "clusterId": cluster_id}})
    Adoption(again, before).settle()
    assert len(proxy.to_api) - since < _MOST_CALLS
    made = {each for each in changes(proxy, since) if each.startswith(("POST", "DELETE"))}
    assert made == set(), "objects were created again"
