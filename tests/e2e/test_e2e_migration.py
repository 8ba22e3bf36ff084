"""A running quorum goes from clear text to TLS and back under load, by its spec alone."""

import pytest

from support.kind_env.environment import MOVE_TIMEOUT_S, KindEnv
from support.kind_env.waiting import wait_for

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


def go(env: KindEnv, mode: str, reason: str, stage: str | None = None) -> None:
    """Waits until the condition reports this stage and no step is pending."""
    quorum = env.the_quorum
    quorum.patch({"tls": {"mode": mode}})

    def arrived() -> bool:
        condition = quorum.condition("TlsReady")
        idle = (quorum.status().get("plan") or {}).get("step") == "Nothing"
        current = quorum.status().get("observedGeneration") == _generation(env)
        there = stage is None or (quorum.status().get("tls") or {}).get("stage") == stage
        settled = there and idle and current and _rolled(env)
        return bool(settled and condition and condition["reason"] == reason)

    wait_for(
        f"{mode}: {reason}",
        arrived,
        timeout_s=MOVE_TIMEOUT_S,
        seen=lambda: (quorum.condition("TlsReady"), quorum.summary()),
    )
    quorum.wait_healthy(3, timeout_s=60)


def _rolled(env: KindEnv) -> bool:
    """Every pod is ready and of its StatefulSet's newest template."""
    newest = {
        each["metadata"]["name"]: each["status"].get("updateRevision")
        for each in env.the_quorum.stateful_sets()
    }
    pods = env.the_quorum.pods()
    return len(pods) == len(newest) and all(
        pod["metadata"]["labels"]["controller-revision-hash"]
        == newest[pod["metadata"]["name"].removesuffix("-0")]
        and "deletionTimestamp" not in pod["metadata"]
        and all(each["ready"] for each in pod["status"].get("containerStatuses", [{"ready": 0}]))
        for pod in pods
    )


def _generation(env: KindEnv) -> int:
    return int(env.the_quorum.resource()["metadata"]["generation"])


def test_quorum_migrates_to_tls_under_load_and_back_and_then_to_tls_only(env: KindEnv) -> None:
    """The writer uses clear text, so it ends before the last stage closes those ports."""
    quorum = env.create_under_load(3, tls={"mode": "Disabled"})
    before = env.claims_by_uid()
    go(env, "Migrating", "Migrating", "Dialling")
    go(env, "Disabled", "Disabled")
    go(env, "Migrating", "Migrating", "Dialling")
    env.the_load.wait_for_acknowledgement(timeout_s=30)
    assert env.the_load.failed() == []
    # Voters' endpoints change with the stage, so records of the same voters are no double step here.
    verdict = env.the_load.verdict()
    assert (verdict.lost, verdict.stale) == ((), ())
    assert verdict.acknowledged >= 100
    go(env, "Managed", "CertificatesIssued")
    assert quorum.status()["tls"]["mode"] == "Managed"
    assert quorum.is_secured()
    assert env.claims_by_uid() == before
