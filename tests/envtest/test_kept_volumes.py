"""Volumes of failed members on a real API server: kept and listed, and deleted by Kubernetes when the spec's time is over."""

import pytest

from support.envtest.environment import Env
from support.envtest.quorum import ApiServerQuorum
from support.kind_env.waiting import stays, wait_for

pytestmark = [pytest.mark.envtest, pytest.mark.usefixtures("operator"), pytest.mark.long]

_QUIET_S = 3.0


def kept(quorum: ApiServerQuorum) -> set[str]:
    return {each["pvc"] for each in quorum.status().get("keptVolumes") or []}


def claims(quorum: ApiServerQuorum) -> set[str]:
    return {each["metadata"]["name"] for each in quorum.claims()}


@pytest.mark.requirement("OP-10")
def test_kept_volume_of_a_failed_member_is_deleted_only_after_its_retention_time(env: Env) -> None:
    quorum = env.create(3, disks=True)
    load = env.start_load(quorum)
    failed = quorum.fail_disk(quorum.voter(leader=False))
    quorum.wait_replaced(failed, 3)
    claim = f"data-{failed.pod}"
    wait_for("it is listed", lambda: kept(quorum) == {claim}, timeout_s=30, seen=quorum.summary)
    stays("it is kept", lambda: claim in claims(quorum), for_s=_QUIET_S)
    others = claims(quorum) - {claim}
    storage = quorum.resource()["spec"]["storage"]
    quorum.patch({"storage": {**storage, "keepFailedFor": "1s"}})
    wait_for("it goes", lambda: claim not in claims(quorum), timeout_s=60, seen=quorum.summary)
    wait_for("nothing is listed", lambda: not kept(quorum), timeout_s=30, seen=quorum.summary)
    assert claims(quorum) == others
    assert failed.pod.removesuffix("-0") not in quorum.incarnations()
    assert failed.key not in quorum.wait_ready(3).keys
    env.prove_nothing_lost(load)
