"""A quorum that can't form with its first spec forms with the corrected one, on a modelled cluster and without a person."""

from typing import Any

import pytest

from support.envtest.kube_api import Json
from support.kind_env import kube
from support.kind_env.testbed import STORAGE_CLASS
from support.modelled_cluster.playing import NAME, apply, await_serving, modelled

STUCK_S = 40.0
TOO_LARGE = {"size": "900Gi", "storageClassName": STORAGE_CLASS}


def corrected(first: Json, correction: Json, replicas: int) -> list[str]:
    """Apply the first spec, wait, and correct it. Returns the steps of the operator after the correction."""
    with modelled(1) as (cluster, env, records):
        apply(env, first)
        cluster.sleep(STUCK_S)
        resource = env.the_quorum.resource()
        assert resource["status"]["phase"] != "Ready", "it could form"
        began = len(records.steps())
        path = f"{kube.quorums(env.namespace)}/{NAME}"
        env.api.merge(path, {"spec": correction})
        await_serving(cluster, env, replicas)
        assert records.bugs() == []
        return [str(each["step"]) for each in records.steps()[began:]]


@pytest.mark.parametrize(
    ("first", "correction", "replicas"),
    [
        ({"replicas": 5, "spread": "Required"}, {"replicas": 3}, 3),
        ({"replicas": 3, "storage": TOO_LARGE}, {"storage": {"size": "256Mi"}}, 3),
    ],
)
def test_it_forms_with_the_corrected_spec(first: Json, correction: Json, replicas: int) -> None:
    steps: Any = corrected(first, correction, replicas)
    assert "CreateIdentity" in steps
