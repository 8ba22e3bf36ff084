"""Marks on claims are parsed as written; the founder keeps running when its permission is removed."""

from dataclasses import replace
from typing import Any

import pytest

from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.desired import stateful_set
from quorum_operator.desired.names import Owner
from quorum_operator.kube import facts
from quorum_operator.kube.claims import lone_claims, marks_facts, marks_notes
from quorum_operator.kube.pod_template import with_template
from quorum_operator.planner.formation_defaults import FormationDefault
from quorum_operator.planner.observed import FailureLatch, Founding, Identity, Marks, StorageChoice

OWNER = Owner("q", "space", "uid-1")
IDENTITY = Identity(2, "cluster", 1, "founder-uuid", 3, formed=False)
FOUNDER = stateful_set.Member(1, 1, IDENTITY, founder=True)
LATCH = FailureLatch("StorageFailed", "exit code 74", 12.5, 11.25)
FULL = Marks("U", "c", "uid-1", 2, LATCH, "FencedByRecovery: x", "left", "U:1:2")


def born(member: stateful_set.Member) -> dict[str, Any]:
    body = stateful_set.build(OWNER, MetadataQuorumSpec(), member)
    found: dict[str, Any] = body["spec"]["volumeClaimTemplates"][0]
    return found


@pytest.mark.requirement("OP-07")
def test_written_failure_marks_are_parsed_back() -> None:
    born_with = Marks(network_policy=True, defaults=frozenset(FormationDefault))
    for marks in (FULL, Marks(), Marks(uuid="U"), born_with):
        notes = {key: text for key, text in marks_notes(marks).items() if text is not None}
        assert marks_facts({"annotations": notes}) == marks
        assert marks_notes(marks).keys() == marks_notes(FULL).keys(), (
            "removed marks keep their annotations"
        )


@pytest.mark.requirement("OP-07")
def test_new_claim_has_its_owner_and_the_founder_claim_its_replica() -> None:
    marks = marks_facts(born(FOUNDER)["metadata"])
    assert marks == Marks("founder-uuid", "cluster", "uid-1", 2)
    other = marks_facts(born(stateful_set.Member(2, 1, IDENTITY))["metadata"])
    assert other == Marks(None, "cluster", "uid-1", 2)


@pytest.mark.requirement("OP-07")
def test_recreated_stateful_set_uses_the_replica_and_storage_of_its_claim() -> None:
    storage = StorageChoice("3Gi", "fast")
    member = stateful_set.Member(2, 4, IDENTITY, replica_uuid="U", storage=storage)
    notes = stateful_set.build(OWNER, MetadataQuorumSpec(), member)["metadata"]["annotations"]
    assert notes["metadataquorum.dev/replica-uuid"] == "U"
    assert facts.storage_facts(notes["metadataquorum.dev/storage"], StorageChoice("1Gi", None)) == (
        storage
    )


@pytest.mark.requirement("OP-07")
def test_claim_without_a_stateful_set_of_any_owner_is_orphaned() -> None:
    meta = {"name": "data-q-1-1-0", "uid": "u", "labels": {}}
    claim = {"metadata": meta, "spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    found = lone_claims(OWNER, {(1, 1): claim, (2, 1): claim}, {(2, 1)}, {})
    assert [(each.node_id, each.member, each.key) for each in found] == [(1, "q-1-1", None)]
    assert found[0].storage == StorageChoice("2Gi", None)


@pytest.mark.requirement("OP-05")
def test_removed_permission_is_detected_and_restarts_no_pod() -> None:
    before = stateful_set.build(OWNER, MetadataQuorumSpec(), FOUNDER)
    formed = replace(FOUNDER, identity=replace(IDENTITY, formed=True))
    after = stateful_set.build(OWNER, MetadataQuorumSpec(), formed)
    reported = [facts.founding_facts(facts.overrides_of(each)) for each in (before, after)]
    assert reported == [Founding(1, "founder-uuid", 3), None]
    made_at, labels = "2026-01-01T00:00:00Z", {"controller-revision-hash": "old"}
    meta = {"name": "q-1-1-0", "uid": "p", "creationTimestamp": made_at, "labels": labels}
    pod = {"metadata": meta, "spec": before["spec"]["template"]["spec"]}
    other = stateful_set.build(OWNER, MetadataQuorumSpec(image="other:1"), formed)
    for each in (after, other):
        each["status"] = {"updateRevision": "new"}
    seen = with_template(facts.pod_facts(pod, None), pod, after)
    assert not seen.outdated, "a crash of it needs no other pod"
    assert not seen.runs_other
    assert with_template(facts.pod_facts(pod, None), pod, other).runs_other
