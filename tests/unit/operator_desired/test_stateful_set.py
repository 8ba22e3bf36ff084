"""The StatefulSet of a member: unprivileged, with fast failure detection, and only the founder may format."""

from dataclasses import replace
from typing import Any

import pytest

from quorum_node.survivor import parse_survivor
from quorum_operator.crd import DeletionPolicy, MetadataQuorumSpec, Spread
from quorum_operator.desired import stateful_set
from quorum_operator.desired.names import ANNOTATION_RESTART, ANNOTATION_UUID, Owner
from quorum_operator.desired.stateful_set import Member
from quorum_operator.planner.observed import Identity

OWNER = Owner("demo", "space", "uid-1")
IDENTITY = Identity(1, "cluster", 1, "founder-uuid", 3, formed=False)
FOUNDER = Member(1, 1, IDENTITY, founder=True)
OTHER = Member(2, 1, IDENTITY)
SPEC = MetadataQuorumSpec()


def container(body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = body["spec"]["template"]["spec"]["containers"][0]
    return found


def arguments(body: dict[str, Any]) -> list[str]:
    found: list[str] = container(body)["args"]
    return found


def test_names_contain_the_incarnation() -> None:
    body = stateful_set.build(OWNER, SPEC, Member(3, 2, IDENTITY, replaces=1))
    assert body["metadata"]["name"] == "demo-3-2"
    assert "node.id=3" in arguments(body)
    host = "demo-3-2-0.demo-nodes.space.svc"
    assert f"advertised.listeners=CONTROLLER://{host}:9093" in arguments(body)


def test_only_the_founder_may_format_and_only_until_formation() -> None:
    def may_format(member: Member) -> bool:
        return any("formation.founder" in each for each in _of(member))

    def _of(member: Member) -> list[str]:
        return arguments(stateful_set.build(OWNER, SPEC, member))

    formed = replace(IDENTITY, formed=True)
    assert may_format(FOUNDER)
    assert not may_format(OTHER)
    assert not may_format(replace(FOUNDER, identity=formed))
    founder = stateful_set.build(OWNER, SPEC, FOUNDER)
    assert founder["metadata"]["annotations"][ANNOTATION_UUID] == "founder-uuid"
    assert ANNOTATION_UUID not in stateful_set.build(OWNER, SPEC, OTHER)["metadata"]["annotations"]


@pytest.mark.requirement("OP-05")
def test_removing_the_format_permission_changes_the_template_but_restarts_no_pod() -> None:
    formed = replace(FOUNDER, identity=replace(IDENTITY, formed=True))
    before = stateful_set.hashes(OWNER, SPEC, FOUNDER)
    after = stateful_set.hashes(OWNER, SPEC, formed)
    assert before.template_hash != after.template_hash
    assert before.restart_hash == after.restart_hash
    assert stateful_set.build(OWNER, SPEC, FOUNDER)["spec"]["updateStrategy"]["type"] == "OnDelete"


@pytest.mark.requirement("OP-05")
def test_changed_image_or_property_requires_a_restart() -> None:
    hashes = {
        stateful_set.hashes(OWNER, spec, OTHER).restart_hash
        for spec in (
            SPEC,
            MetadataQuorumSpec(image="other"),
            MetadataQuorumSpec(config={"metadata.log.segment.bytes": "1"}),
        )
    }
    assert len(hashes) == 3
    pod = stateful_set.build(OWNER, SPEC, OTHER)["spec"]["template"]
    assert pod["metadata"]["annotations"][ANNOTATION_RESTART] in hashes


def test_pod_is_unprivileged() -> None:
    body = stateful_set.build(OWNER, SPEC, OTHER)
    pod = body["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not pod["automountServiceAccountToken"]
    security = container(body)["securityContext"]
    assert security["readOnlyRootFilesystem"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert not security["allowPrivilegeEscalation"]


def test_scaling_deletes_no_claim_and_deletion_follows_the_policy() -> None:
    kept = stateful_set.build(OWNER, SPEC, OTHER)["spec"]["persistentVolumeClaimRetentionPolicy"]
    assert kept == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    spec = MetadataQuorumSpec(deletion_policy=DeletionPolicy.DELETE)
    gone = stateful_set.build(OWNER, spec, OTHER)["spec"]["persistentVolumeClaimRetentionPolicy"]
    assert gone == {"whenDeleted": "Delete", "whenScaled": "Retain"}


def test_preferred_spread_never_keeps_a_new_member_from_starting() -> None:
    def rule(spread: Spread) -> list[str]:
        spec = MetadataQuorumSpec(spread=spread)
        pod = stateful_set.build(OWNER, spec, OTHER)["spec"]["template"]["spec"]
        return [each["whenUnsatisfiable"] for each in pod.get("topologySpreadConstraints", [])]

    assert rule(Spread.PREFERRED) == ["ScheduleAnyway"]
    assert rule(Spread.REQUIRED) == ["DoNotSchedule"]
    assert rule(Spread.NONE) == []


def test_only_a_survivor_gets_the_recovery_argument_and_only_its_pod_is_outdated_by_it() -> None:
    text = "AAAAAAAAAAAAAAAAAAAAAQ:4:17"
    survivor = replace(OTHER, recovery=parse_survivor(text))
    assert "--recover" not in arguments(stateful_set.build(OWNER, SPEC, OTHER))
    assert arguments(stateful_set.build(OWNER, SPEC, survivor))[-2:] == ["--recover", text]
    before, after = (stateful_set.hashes(OWNER, SPEC, each) for each in (OTHER, survivor))
    assert before.restart_hash != after.restart_hash
    assert before.template_hash != after.template_hash


def test_claims_have_no_label_that_pruning_tools_select_by() -> None:
    """They have no owner, so Argo CD would take them for its own."""
    built = stateful_set.build(OWNER, SPEC, OTHER)
    [claim] = built["spec"]["volumeClaimTemplates"]
    assert "app.kubernetes.io/instance" not in claim["metadata"]["labels"]
    assert claim["metadata"]["labels"]["metadataquorum.dev/quorum"] == OWNER.name
    selected = built["spec"]["selector"]["matchLabels"]
    assert selected.items() <= built["spec"]["template"]["metadata"]["labels"].items()
    assert "app.kubernetes.io/instance" not in selected, "Kubernetes copies it to the claim"
