"""Rejections of a real API server: reported on the resource, retried with backoff, blocking no other step, and cleared with the cause."""

import time
from typing import Any

import pytest

from support.envtest.environment import Env, SharedQuorum
from support.envtest.http_proxy import RecordingProxy
from support.envtest.quorum import MOVE_TIMEOUT_S, ApiServerQuorum
from support.kind_env import kube
from support.kind_env.waiting import wait_for

pytestmark = pytest.mark.envtest

_QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "few"},
    "spec": {"hard": {"count/statefulsets.apps": "1"}},
}
_POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
_WINDOW_S = 6.0
_WINDOWS = 5
BAD_CONFIGURATION = 78
"""Exit code."""
_CALLS_PER_S = 8.0
"""While something is refused; the harness looks at every quorum once a second at least."""


@pytest.fixture
def proxy(env: Env) -> RecordingProxy:
    """Of a running operator."""
    env.refuses = True
    operator, proxy = env.add_operator()
    operator.start()
    return proxy


def calls_per_s(proxy: RecordingProxy) -> float:
    """Of the calmest of some windows in a row: after a step the operator looks live for a while, and tries come later
    and later. What never calms down has no calm window.
    """
    rates: list[float] = []
    while len(rates) < _WINDOWS and min(rates, default=_CALLS_PER_S) >= _CALLS_PER_S:
        before, began = len(proxy.to_api), time.monotonic()
        time.sleep(_WINDOW_S)
        rates.append((len(proxy.to_api) - before) / (time.monotonic() - began))
    return min(rates)


def wait_refused(quorum: ApiServerQuorum, reason: str, subject: str) -> None:
    def refused() -> bool:
        condition = quorum.condition("Refused") or {}
        return (condition.get("status"), condition.get("reason")) == (
            "True",
            reason,
        ) and subject in condition["message"]

    wait_for(f"{reason} of {subject}", refused, timeout_s=30, seen=quorum.summary)


def told(env: Env, text: str) -> bool:
    return any(text in each["message"] and each["type"] == "Warning" for each in env.events("q"))


@pytest.mark.requirement("OP-01")
def test_exceeded_quota_is_reported_and_the_quorum_grows_when_it_is_raised(
    env: Env, proxy: RecordingProxy
) -> None:
    quorum = env.create(1)
    quota = kube.core(env.namespace, "resourcequotas", "few")
    env.api.create(quota.rpartition("/")[0], _QUOTA)
    used = {"count/statefulsets.apps": "1"}
    wait_for(
        "the quota is counted",
        lambda: env.api.get(quota).get("status", {}).get("used") == used,
        timeout_s=30,
    )
    quorum.scale(3)
    wait_refused(quorum, "QuotaExceeded", "StatefulSet/q-2-1")
    wait_for("an event reports it", lambda: told(env, "exceeded quota"), timeout_s=30)
    assert calls_per_s(proxy) < _CALLS_PER_S
    wait_for("the quorum serves", quorum.describe, timeout_s=30)
    env.api.delete(quota)
    quorum.wait_ready(3, timeout_s=2 * MOVE_TIMEOUT_S)
    wait_for("nothing is refused", lambda: quorum.condition_is("Refused", "False"), timeout_s=30)


@pytest.mark.requirement("OP-01")
@pytest.mark.parametrize(
    ("refused", "words"),
    [
        ("pods", ("q-2-1-0", "requested: pods=1")),
        pytest.param("persistentvolumeclaims", ("data-q-2-1-0",), marks=pytest.mark.long),
    ],
)
def test_quota_that_rejects_pods_or_claims_of_a_stateful_set_is_reported(
    env: Env, proxy: RecordingProxy, refused: str, words: tuple[str, ...]
) -> None:
    quorum = env.create(1)
    quota = kube.core(env.namespace, "resourcequotas", "few")
    env.api.create(quota.rpartition("/")[0], {**_QUOTA, "spec": {"hard": {refused: "1"}}})
    wait_for(
        "the quota is counted",
        lambda: env.api.get(quota).get("status", {}).get("used") == {refused: "1"},
        timeout_s=30,
    )
    quorum.scale(3)
    wait_refused(quorum, "QuotaExceeded", "StatefulSet/q-2-1")
    message = (quorum.condition("Refused") or {})["message"]
    for word in (*words, "exceeded quota: few", "Raise the ResourceQuota"):
        assert word in message
    wait_for("an event reports it", lambda: told(env, "exceeded quota: few"), timeout_s=30)
    wait_for(
        "the plan says what it waits for",
        lambda: "q-2-1 (no pod yet: " in quorum.status()["plan"].get("blockedBy", ""),
        timeout_s=30,
        seen=quorum.summary,
    )
    assert calls_per_s(proxy) < _CALLS_PER_S
    wait_for("the quorum serves", quorum.describe, timeout_s=30)
    env.api.delete(quota)
    quorum.wait_healthy(3, timeout_s=2 * MOVE_TIMEOUT_S)
    wait_for("nothing is refused", lambda: quorum.condition_is("Refused", "False"), timeout_s=30)


@pytest.mark.requirement("OP-01")
def test_admission_policy_that_rejects_one_object_does_not_block_others(
    shared_quorum: SharedQuorum,
) -> None:
    env, proxy, quorum = shared_quorum.env, shared_quorum.proxy, shared_quorum.quorum
    env.refuses = True
    name = f"frozen-{env.namespace}"
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": ["apps"],
                        "apiVersions": ["v1"],
                        "operations": ["UPDATE"],
                        "resources": ["statefulsets"],
                    }
                ]
            },
            "validations": [
                {"expression": "object.metadata.name != 'q-2-1'", "message": "q-2-1 is frozen"}
            ],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {
            "policyName": name,
            "validationActions": ["Deny"],
            "matchResources": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": env.namespace}}
            },
        },
    }
    env.api.create(_POLICIES, policy)
    env.api.create(_BINDINGS, binding)
    try:
        time.sleep(
            2.0
        )  # the API server applies a new policy after a moment, and reports nowhere when
        quorum.patch({"tolerations": [{"key": "x", "operator": "Exists"}]})
        wait_refused(quorum, "AdmissionDenied", "StatefulSet/q-2-1")
        wait_for("an event reports it", lambda: told(env, "q-2-1 is frozen"), timeout_s=30)

        def tolerant() -> set[str]:
            return {
                each["metadata"]["name"]
                for each in quorum.stateful_sets()
                if each["spec"]["template"]["spec"].get("tolerations")
            }

        wait_for("the others", lambda: tolerant() == {"q-1-1", "q-3-1"}, timeout_s=30)
        assert calls_per_s(proxy) < _CALLS_PER_S
    finally:
        env.api.delete(f"{_BINDINGS}/{name}")
        env.api.delete(f"{_POLICIES}/{name}")
    wait_for("all of them", lambda: len(tolerant()) == 3, timeout_s=90, seen=quorum.summary)


@pytest.mark.requirement("OP-01")
def test_drift_is_reverted_on_a_real_api_server(shared_quorum: SharedQuorum) -> None:
    env, proxy, quorum = shared_quorum.env, shared_quorum.proxy, shared_quorum.quorum
    space = env.namespace
    budget = f"/apis/policy/v1/namespaces/{space}/poddisruptionbudgets/q"
    config, service = (
        kube.core(space, "configmaps", "q-config"),
        kube.core(space, "services", "q-nodes"),
    )
    owned = kube.apps(space, "statefulsets", "q-3-1")
    before = [env.api.get(path) for path in (budget, config, service, owned)]
    env.api.merge(budget, {"spec": {"maxUnavailable": 3, "minAvailable": None}})
    env.api.merge(config, {"immutable": True, "data": {"node.properties": "x=y"}})
    ports = [*before[2]["spec"]["ports"], {"name": "by-hand", "port": 999, "protocol": "TCP"}]
    env.api.merge(service, {"spec": {"selector": {"no": "body"}, "ports": ports}})
    container = {"name": "node", "image": "quorum-node:missing"}
    env.api.call(
        "PATCH",
        owned,
        {"spec": {"template": {"spec": {"containers": [container]}}}},
        content_type="application/strategic-merge-patch+json",
    )

    def mended() -> bool:
        now = [env.api.find(path) or {} for path in (budget, config, service, owned)]
        parts = [("spec",), ("data",), ("spec",), ("spec", "template")]
        return all(
            _at(a, part) == _at(b, part) for a, b, part in zip(before, now, parts, strict=True)
        )

    pods = {each["metadata"]["uid"] for each in quorum.pods()}
    wait_for("all as before", mended, timeout_s=60, seen=quorum.summary)
    assert calls_per_s(proxy) < _CALLS_PER_S, "the operator repeated a write"
    assert {each["metadata"]["uid"] for each in quorum.pods()} == pods


@pytest.mark.requirement("OP-01")
def test_pod_that_crashed_with_a_replaced_configuration_is_recreated(
    shared_quorum: SharedQuorum,
) -> None:
    """The ConfigMap is immutable and must be recreated, and the pod keeps what it has mounted."""
    env, quorum, pod = shared_quorum.env, shared_quorum.quorum, "q-3-1-0"
    quorum.patch({"paused": True})
    quorum.wait_phase("Paused", timeout_s=MOVE_TIMEOUT_S)
    config = kube.core(env.namespace, "configmaps", "q-config")
    env.api.merge(config, {"immutable": True, "data": {"node.properties": "no.such.key=1"}})
    env.api.delete(kube.core(env.namespace, "pods", pod))
    wait_for(
        f"{pod} refuses its configuration",
        lambda: quorum.exit_code(pod) == BAD_CONFIGURATION,
        timeout_s=60,
        seen=quorum.summary,
    )
    quorum.patch({"paused": False})
    quorum.wait_ready(3)


def _at(found: dict[str, Any], path: tuple[str, ...]) -> object:
    for part in path:
        found = found.get(part) or {}
    return found
