"""The time of the next renewal in the status, on which the alert MetadataQuorumCertificatesNotRenewed depends."""

import pytest

from quorum_operator.certificates.lifetimes import DAY_S
from quorum_operator.kube.errors import Forbidden
from quorum_operator.metrics import Metrics
from quorum_operator.planner.times import seconds_of
from quorum_operator.resource_facts import earlier_status
from support.in_memory_kube_api import NAME, SPACE
from support.secured_quorum import Env, leaf_in, leaf_path

SERIES = "metadataquorum_operator_quorum_certificate_renewal_time_seconds"


def overdue_s(env: Env) -> float:
    """Time since the renewal was due, in seconds, as the alert computes it."""
    metrics = Metrics()
    metrics.set_status(SPACE, NAME, earlier_status(env.api.resource))
    due = metrics.registry.get_sample_value(SERIES, {"namespace": SPACE, "name": NAME})
    assert due is not None, "the alert has no data"
    return float(env.nodes.now) - due


def refuse_secrets(verb: str, path: str) -> None:
    if verb != "get" and "/secrets/" in path:
        raise Forbidden(403, "Forbidden", "secrets is forbidden")


@pytest.mark.parametrize("why", ["refused", "paused"])
def test_overdue_renewal_stays_in_the_status_until_it_succeeds(why: str) -> None:
    env = Env()
    env.settle()
    validity = leaf_in(env.api.objects[leaf_path(1)]).validity
    assert seconds_of(env.api.status["tls"]["renewalAt"]) == int(validity.leaf_due_at)
    if why == "paused":
        env.api.change_spec(paused=True)
    else:
        env.api.refuse = refuse_secrets
    for days in (61, 89, 91):
        env.nodes.now = validity.not_before + days * DAY_S
        env.looks(3)
        assert overdue_s(env) == pytest.approx((days - 60) * DAY_S, abs=DAY_S), days
    env.api.refuse = lambda verb, path: None
    env.api.change_spec(paused=False)
    env.settle()
    assert overdue_s(env) < -59 * DAY_S
