"""An operator of an earlier version forms a quorum, and this one takes over: nothing is restarted, and then it repairs."""

import os
from pathlib import Path

import pytest

from support.envtest.environment import Env
from support.envtest.killer import EAGER
from support.envtest.moves import Before, RebuiltMember
from support.envtest.quorum import ApiServerQuorum
from support.kind_env.waiting import stays, wait_for
from support.previous_version import NoHistory, previous_operator

pytestmark = [pytest.mark.envtest, pytest.mark.requirement("OP-04")]

_MARKS = ("replica-uuid", "cluster-id", "resource-uid")
_QUIET_S = 5.0
_PREFIX = "metadataquorum.dev/"


@pytest.fixture
def older(tmp_path: Path) -> dict[str, str]:
    """The environment of the earlier operator."""
    try:
        return previous_operator(tmp_path / "earlier-operator")
    except NoHistory as error:
        pytest.skip(str(error))


def notes(quorum: ApiServerQuorum) -> list[dict[str, str]]:
    """The annotations of the claims."""
    return [each["metadata"].get("annotations") or {} for each in quorum.claims()]


def marked(quorum: ApiServerQuorum) -> set[str]:
    """Replica UUIDs of the claims that have all annotations of this version."""
    whole = [each for each in notes(quorum) if all(f"{_PREFIX}{mark}" in each for mark in _MARKS)]
    return {each[f"{_PREFIX}replica-uuid"] for each in whole}


def restarts(quorum: ApiServerQuorum) -> int:
    return sum(quorum.restarts(each["metadata"]["name"]) for each in quorum.pods())


@pytest.mark.long
@pytest.mark.timeout(280)
def test_newer_operator_takes_over_under_load_and_restarts_no_pod(
    env: Env, older: dict[str, str]
) -> None:
    env.refuses = True  # rights are those of this version
    first, _ = env.add_operator(lease=False, **older)
    first.start()
    quorum = env.create(3, disks=True, repair=EAGER, resources={"requests": {"cpu": "50m"}})
    load = env.start_load(quorum)
    before = Before.of(quorum)
    if "UPGRADE_OPERATOR_FROM" not in os.environ:
        assert marked(quorum) == set(), "it is an earlier operator"
    assert first.stop() == 0
    second, _ = env.add_operator()
    second.start()
    uuids = {uuid for _, uuid in before.described.keys}
    wait_for(
        "all claims are marked",
        lambda: marked(quorum) == uuids,
        timeout_s=60,
        seen=lambda: notes(quorum),
    )
    move = RebuiltMember(quorum, before)
    move.is_as_before()
    counted = restarts(quorum)

    def pods() -> set[str]:
        return {each["metadata"]["uid"] for each in quorum.pods()}

    def untouched() -> bool:
        return pods() == before.pods and restarts(quorum) == counted == 0

    stays("no pod is restarted", untouched, for_s=_QUIET_S)
    # What this version can, and the earlier one could not: a claim alone is enough to go on.
    move.begin()
    move.settle()
    wait_for(
        "the pod of the deleted StatefulSet is replaced",
        lambda: len(pods() - before.pods) == 1 and len(pods()) == len(before.pods),
        timeout_s=60,
        seen=quorum.summary,
    )
    quorum.wait_ready(3)
    failed = quorum.fail_disk(quorum.voter(leader=False))
    quorum.wait_replaced(failed, 3)
    env.prove_nothing_lost(load)
