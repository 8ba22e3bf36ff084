"""Another client reverts what the operator writes for certificates: it slows down, says so, and goes on as soon as that ends."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from quorum_operator.certificates.lifetimes import DAY_S
from support.in_memory_kube_api import NAME, SPACE, InMemoryKubeApi
from support.secured_quorum import TRUST, Env, leaf_path, secret_path

WATCHED_S = 600
MOST_WRITES = 30
"""In the watched time. Without a backoff it is one write for each reconcile, four in a second."""

Revert = Callable[[InMemoryKubeApi], None]


def _empty_trust(api: InMemoryKubeApi) -> None:
    api.objects[TRUST]["data"] = {}


def _cut_bundle(api: InMemoryKubeApi) -> None:
    api.objects[leaf_path(2)]["data"]["ca.crt"] = ""


def _delete_authorities(api: InMemoryKubeApi) -> None:
    for path in [each for each in api.objects if "/secrets/demo-ca-" in each]:
        del api.objects[path]


def watched(env: Env, revert: Revert) -> int:
    """Writes to Secrets and ConfigMaps while each is reverted; reconciles follow each other as the workers have them."""
    operator: Any = env.operator()
    begin, before = env.nodes.now, len(env.api.writes)

    async def run() -> None:
        while env.nodes.now < begin + WATCHED_S:
            revert(env.api)
            due = await operator.reconcile(SPACE, NAME)
            assert env.nodes.trust_failures() == []
            env.nodes.now += max(20.0 if due.after_s is None else due.after_s, 0.25)

    asyncio.run(run())
    return sum(1 for _, path in env.api.writes[before:] if "/pods/" not in path)


@pytest.mark.parametrize(
    ("revert", "named"),
    [
        (_empty_trust, "ConfigMap/demo-trust"),
        (_cut_bundle, "Secret/demo-2-1-tls"),
    ],
)
def test_reverted_write_is_repeated_with_growing_delay_and_reported(
    revert: Revert, named: str
) -> None:
    env = Env()
    env.settle()
    env.api.events.clear()
    assert watched(env, revert) <= MOST_WRITES
    assert len(env.api.events) <= MOST_WRITES
    ready = env.ready()
    assert (ready["status"], ready["reason"]) == ("False", "WriteRefused")
    assert f"{named}: repeated" in ready["message"]
    assert "another client changes the object back" in ready["message"]
    env.nodes.now += DAY_S
    env.settle()


def test_authorities_that_are_deleted_each_time_are_created_ever_more_slowly() -> None:
    env = Env()
    env.settle()
    watched(env, _delete_authorities)
    made = [each for each in env.api.created("secrets") if each.startswith("demo-ca-")]
    assert len(made) <= MOST_WRITES
    assert "Secret/demo-ca-*: repeated" in env.ready()["message"]
    env.nodes.now += DAY_S
    env.settle()
    assert secret_path(made[-1]) in env.api.objects or env.api.status["tls"]["authority"]
