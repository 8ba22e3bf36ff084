"""The StatefulSet of a replacement from another member's template, because the API server rejects the current one."""

import copy
from typing import Any

import pytest

from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.desired import stateful_set
from quorum_operator.desired.accepted_template import with_accepted_template
from quorum_operator.desired.names import Owner
from quorum_operator.planner.observed import Identity
from quorum_operator.planner.tls_stage import TlsStage

OWNER = Owner("demo", "space", "uid", "operators")
SIDECAR = {"name": "proxy", "image": "proxy:1", "args": ["sidecar"]}


def built(node_id: int, number: int, stage: TlsStage, **parts: Any) -> dict[str, Any]:
    spec = MetadataQuorumSpec.model_validate({"image": "node:1", **parts})
    closed = stage is TlsStage.CLOSED
    identity = Identity(1, "c1", 1, "U1", 3, formed=True, tls=closed, migration=stage)
    return stateful_set.build(OWNER, spec, stateful_set.Member(node_id, number, identity))


def node_in(made: dict[str, Any]) -> dict[str, Any]:
    found = made["spec"]["template"]["spec"]["containers"]
    return next(each for each in found if each["name"] == "node")


@pytest.mark.parametrize("before", list(TlsStage))
@pytest.mark.parametrize("stage", list(TlsStage))
def test_replacement_keeps_what_belongs_to_the_member(stage: TlsStage, before: TlsStage) -> None:
    refused = built(3, 2, stage, nodeSelector={"": "b"}, image="node:2")
    accepted = built(1, 1, before, nodeSelector={"pool": "a"})
    made = with_accepted_template(refused, accepted)
    pod = made["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"pool": "a"}
    assert node_in(made)["image"] == "node:1"
    assert pod["volumes"] == refused["spec"]["template"]["spec"]["volumes"]
    secrets = {each["secret"]["secretName"] for each in pod["volumes"] if "secret" in each}
    assert "demo-1-1-tls" not in secrets, "the certificate of another member"
    assert ("demo-3-2-tls" in secrets) == (stage is not TlsStage.PLAIN)
    for part in ("args", "ports", "volumeMounts", "startupProbe", "livenessProbe"):
        assert node_in(made)[part] == node_in(refused)[part]


def test_replacement_finds_the_member_beside_an_injected_container() -> None:
    refused = built(3, 2, TlsStage.CLOSED)
    accepted = built(1, 1, TlsStage.CLOSED)
    accepted["spec"]["template"]["spec"]["containers"].insert(0, SIDECAR)
    before = copy.deepcopy(accepted)
    made = with_accepted_template(refused, accepted)
    assert node_in(made)["args"] == node_in(refused)["args"]
    assert made["spec"]["template"]["spec"]["containers"][0] == SIDECAR
    assert accepted == before
