"""Another client reverts what the operator writes for certificates: it slows down, says so, and goes on as soon as that ends."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from quorum_operator.certificates.lifetimes import DAY_S
from quorum_operator.kube.errors import Invalid
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


def _seal(api: InMemoryKubeApi) -> None:
    """What the API server does with an object that has `immutable: true`."""

    def frozen(verb: str, path: str) -> None:
        if verb == "merge" and api.objects.get(path, {}).get("immutable"):
            raise Invalid(
                422, "Invalid", "data: Forbidden: field is immutable when `immutable` is set"
            )

    api.refuse = frozen


def test_trust_that_was_made_immutable_with_other_contents_is_recreated() -> None:
    env = Env()
    env.settle()
    before = dict(env.api.objects[TRUST]["data"])
    env.api.objects[TRUST] |= {"immutable": True, "data": {"ca.crt": "not a certificate\n"}}
    _seal(env.api)
    env.settle()
    assert env.api.objects[TRUST]["data"] == before
    assert not env.api.objects[TRUST].get("immutable")


def test_certificate_that_was_made_immutable_has_to_be_deleted_by_the_user() -> None:
    """The operator may not delete Secrets."""
    env = Env()
    env.settle()
    env.api.objects[leaf_path(2)] |= {"immutable": True, "data": {}}
    _seal(env.api)
    env.looks(4)
    ready = env.ready()
    assert (ready["status"], ready["reason"]) == ("False", "WriteRefused")
    assert "Secret/demo-2-1-tls" in ready["message"]
    assert "delete it" in ready["message"]
    del env.api.objects[leaf_path(2)]
    env.settle()
