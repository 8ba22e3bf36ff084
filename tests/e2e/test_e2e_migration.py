"""A running quorum goes from clear text to TLS and back under load, by its spec alone."""

import pytest

from support.trial.arena import MOVE_TIMEOUT_S, Arena
from support.trial.waiting import wait_for

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


def go(arena: Arena, mode: str, reason: str, stage: str | None = None) -> None:
    """Until the condition says so at this stage and nothing is left to do."""
    quorum = arena.the_quorum
    quorum.patch({"tls": {"mode": mode}})

    def arrived() -> bool:
        told = quorum.condition("TlsReady")
        idle = (quorum.status().get("plan") or {}).get("step") == "Nothing"
        current = quorum.status().get("observedGeneration") == _generation(arena)
        there = stage is None or (quorum.status().get("tls") or {}).get("stage") == stage
        settled = there and idle and current and _rolled(arena)
        return bool(settled and told and told["reason"] == reason)

    wait_for(
        f"{mode}: {reason}",
        arrived,
        timeout_s=MOVE_TIMEOUT_S,
        seen=lambda: (quorum.condition("TlsReady"), quorum.summary()),
    )
    quorum.wait_healthy(3, timeout_s=60)


def _rolled(arena: Arena) -> bool:
    """Every pod is ready and of its StatefulSet's newest template."""
    newest = {
        each["metadata"]["name"]: each["status"].get("updateRevision")
        for each in arena.the_quorum.stateful_sets()
    }
    pods = arena.the_quorum.pods()
    return len(pods) == len(newest) and all(
        pod["metadata"]["labels"]["controller-revision-hash"]
        == newest[pod["metadata"]["name"].removesuffix("-0")]
        and "deletionTimestamp" not in pod["metadata"]
        and all(each["ready"] for each in pod["status"].get("containerStatuses", [{"ready": 0}]))
        for pod in pods
    )


def _generation(arena: Arena) -> int:
    return int(arena.the_quorum.resource()["metadata"]["generation"])


def test_a_quorum_migrates_under_load_goes_back_and_ends_with_certificates(arena: Arena) -> None:
    """The writer speaks clear text, so it ends before the last stage closes those ports."""
    quorum = arena.create_under_load(3, tls={"mode": "Disabled"})
    before = arena.claims_by_uid()
    go(arena, "Migrating", "Migrating", "Dialling")
    go(arena, "Disabled", "Disabled")
    go(arena, "Migrating", "Migrating", "Dialling")
    arena.the_load.wait_for_acknowledgement(timeout_s=30)
    # Voters' endpoints change with the stage, so records of the same voters are no double step here.
    verdict = arena.the_load.verdict()
    assert (verdict.lost, verdict.stale) == ((), ())
    assert verdict.acknowledged >= 100
    go(arena, "Managed", "CertificatesIssued")
    assert quorum.status()["tls"]["mode"] == "Managed"
    assert quorum.is_secured()
    assert arena.claims_by_uid() == before
