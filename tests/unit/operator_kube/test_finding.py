"""A quorum's objects are found by their names and owners, whatever happens to their labels."""

import asyncio
from itertools import product

import pytest

from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.desired.names import (
    ANNOTATION_CLUSTER_ID,
    ANNOTATION_REMOVED,
    LABEL_FORMATION,
    LABEL_INSTANCE,
    LABEL_NODE_ID,
    LABEL_QUORUM,
    Owner,
)
from quorum_operator.kube.finding import MemberId, Parts, Search, find_parts
from quorum_operator.kube.label_drift import label_drift
from quorum_operator.kube.observe import Cluster, observe
from support.member_objects import MemberObjects, Object

OWNER = Owner("q", "space", "uid-q")
MEMBER_IDS = {(1, 1), (2, 1), (3, 1)}
NO_MEMBERS: frozenset[MemberId] = frozenset()
KINDS = [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2)]
EDITS = ("removed", "another quorum's", "no number")


def three() -> tuple[MemberObjects, dict[int, tuple[Object, Object, Object]]]:
    api = MemberObjects()
    api.add_identity(OWNER)
    return api, {node_id: api.add_member(OWNER, node_id) for node_id in (1, 2, 3)}


def found(
    api: MemberObjects,
    known: frozenset[MemberId] = NO_MEMBERS,
    *,
    with_pod: frozenset[MemberId] = NO_MEMBERS,
    wide: bool = False,
) -> Parts:
    return asyncio.run(find_parts(api, OWNER, Search(known=known, with_pod=with_pod, wide=wide)))


def cluster(api: MemberObjects, *, wide: bool = False) -> Cluster:
    spec = MetadataQuorumSpec()
    return asyncio.run(observe(api, OWNER, spec, Search(wide=wide), check_objects=False))


def edit(each: Object, how: str) -> None:
    labels = each["metadata"]["labels"]
    if how == "removed":
        labels.clear()
    elif how == "another quorum's":
        labels |= {key: "other" for key in (LABEL_INSTANCE, LABEL_QUORUM) if key in labels}
    else:
        labels |= {LABEL_NODE_ID: "x", LABEL_FORMATION: "y"}


@pytest.mark.parametrize(("kinds", "how"), list(product(KINDS, EDITS)))
@pytest.mark.requirement("OP-01")
def test_member_is_found_whichever_label_is_edited(kinds: tuple[int, ...], how: str) -> None:
    api, members = three()
    for kind in kinds:
        edit(members[3][kind], how)
    seen = found(api)
    assert seen.sets.keys() == seen.pods.keys() == seen.claims.keys() == MEMBER_IDS
    facts = cluster(api).incarnations[-1]
    assert (facts.node_id, facts.number, facts.formation) == (3, 1, 1)
    assert facts.pod is not None
    assert facts.claim is not None
    drift = {(each.kind, each.name) for each in label_drift(OWNER, seen)}
    assert drift == {
        (
            ("StatefulSet", "Pod", "PersistentVolumeClaim")[kind],
            members[3][kind]["metadata"]["name"],
        )
        for kind in kinds
    }


@pytest.mark.parametrize("how", EDITS[:2])
@pytest.mark.requirement("OP-01")
def test_member_without_labels_is_found_by_the_last_status_or_a_full_search(how: str) -> None:
    api, members = three()
    for each in members[3]:
        edit(each, how)
    assert found(api).sets.keys() == {(1, 1), (2, 1)}
    assert found(api, frozenset({(3, 1)})).sets.keys() == MEMBER_IDS
    seen = found(api, wide=True)
    assert seen.sets.keys() == MEMBER_IDS
    assert seen.unlabelled == {(3, 1)}


@pytest.mark.parametrize("how", EDITS[:2])
def test_pod_of_a_stopped_member_is_found_until_it_has_ended(how: str) -> None:
    """Without its labels its StatefulSet has let go of it, and would be deleted beside a process that runs on."""
    api, members = three()
    members[3][0]["spec"]["replicas"] = 0
    edit(members[3][1], how)
    seen = found(api, frozenset({(3, 1)}), with_pod=frozenset({(3, 1)}))
    assert (3, 1) in seen.pods
    assert [each.name for each in label_drift(OWNER, seen)] == ["q-3-1-0"]


def test_pod_of_a_stopped_member_costs_no_read_after_it_has_ended() -> None:
    api, members = three()
    members[3][0]["spec"]["replicas"] = 0
    del api.objects[next(path for path in api.objects if path.endswith("/pods/q-3-1-0"))]
    found(api, frozenset(MEMBER_IDS))
    assert api.reads == []


def test_no_read_by_name_while_all_objects_are_found_by_label() -> None:
    api, _ = three()
    found(api, frozenset(MEMBER_IDS))
    assert api.reads == []


def test_claim_of_a_removed_member_costs_no_read() -> None:
    api, _ = three()
    _, _, claim = api.add_member(OWNER, 4)
    for path in [path for path in api.objects if "/q-4-1" in path]:
        del api.objects[path]
    found(api)
    assert api.reads == ["/apis/apps/v1/namespaces/space/statefulsets/q-4-1"]
    api.reads.clear()
    claim["metadata"]["annotations"] = {ANNOTATION_REMOVED: "left"}
    found(api)
    assert api.reads == []


def test_drift_correction_restores_the_labels_of_creation() -> None:
    api, members = three()
    before = dict(members[2][1]["metadata"]["labels"])
    members[2][1]["metadata"]["labels"] = {"mine": "kept"}
    (drift,) = label_drift(OWNER, found(api))
    assert dict(drift.labels) == before
    assert drift.uid == members[2][1]["metadata"]["uid"]


@pytest.mark.requirement("OP-01")
def test_pod_orphaned_by_kubernetes_still_belongs_to_the_member() -> None:
    api, members = three()
    pod = members[3][1]
    edit(pod, "removed")
    pod["metadata"].pop("ownerReferences")
    assert (3, 1) in found(api).pods
    # Also when its StatefulSet was deleted without it: its process can at least be queried.
    del api.objects["/apis/apps/v1/namespaces/space/statefulsets/q-3-1"]
    seen = cluster(api, wide=True)
    assert [each.node_id for each in seen.incarnations] == [1, 2]
    assert [(each.node_id, each.ip) for each in seen.strays] == [(3, "10.0.1.3")]
    assert [(each.node_id, each.number) for each in seen.stray_pods] == [(3, 1)]
    assert seen.stray_pods[0].pod.uid == pod["metadata"]["uid"]


@pytest.mark.parametrize(
    ("quorum", "other"),
    [("a", "a-1"), ("a-1", "a"), ("a", "a-1-2"), ("a", "data-a"), ("a", "a-identity")],
)
def test_quorum_with_a_common_name_prefix_is_not_confused(quorum: str, other: str) -> None:
    api = MemberObjects()
    mine, theirs = Owner(quorum, "space", "uid-a"), Owner(other, "space", "uid-b")
    for owner in (mine, theirs):
        for index in (1, 2):
            api.add_identity(owner, index)
        for node_id, number in product((1, 2), (1, 2)):
            for each in api.add_member(owner, node_id, number):
                each["metadata"]["labels"] = {}
    for owner in (mine, theirs):
        seen = asyncio.run(find_parts(api, owner, Search(wide=True)))
        assert seen.foreign == ()
        assert seen.sets.keys() == seen.pods.keys() == seen.claims.keys()
        assert set(seen.sets) == {(1, 1), (1, 2), (2, 1), (2, 2)}
        assert set(seen.identities) == {1, 2}
        assert {each["metadata"]["name"] for each in seen.sets.values()} == {
            owner.member(*place) for place in seen.sets
        }


@pytest.mark.requirement("OP-01")
def test_foreign_object_with_a_member_name_is_reported_and_never_adopted() -> None:
    api, _ = three()
    foreign, _, _ = api.add_member(Owner("q", "space", "uid-of-the-one-before"), 3, 2)
    foreign["metadata"].pop("ownerReferences")
    foreign_pod = {"metadata": {"name": "q-2-1-0", "labels": {}}, "spec": {"containers": [{}]}}
    api.add("space", "pods", foreign_pod)
    seen = cluster(api)
    assert [(each.kind, each.name, each.owners) for each in seen.foreign_objects] == [
        ("StatefulSet", "q-3-2", ""),
        ("Pod", "q-2-1-0", ""),
    ]
    assert [each.name for each in seen.incarnations] == ["q-1-1", "q-2-1", "q-3-1"]
    assert seen.incarnations[1].pod is None
    assert seen.used_numbers[3] == 2
    assert seen.label_drift == ()


@pytest.mark.requirement("OP-01")
def test_identity_is_found_by_name() -> None:
    api, _ = three()
    api.objects["/api/v1/namespaces/space/configmaps/q-identity"]["metadata"]["labels"] = {}
    seen = cluster(api)
    assert [(each.index, each.cluster_id) for each in seen.identities] == [(1, "c1")]
    assert [(each.kind, each.name) for each in seen.label_drift] == [("ConfigMap", "q-identity")]


def test_identity_of_a_later_formation_is_found_beside_the_first_one() -> None:
    api = MemberObjects()
    api.add_identity(OWNER, 1)
    api.add_identity(OWNER, 2)["metadata"]["labels"] = {}
    owned, _, _ = api.add_member(OWNER, 1, 2)
    for labels in (owned["metadata"], owned["spec"]["volumeClaimTemplates"][0]["metadata"]):
        labels["labels"][LABEL_FORMATION] = "2"
    owned["spec"]["volumeClaimTemplates"][0]["metadata"]["annotations"][ANNOTATION_CLUSTER_ID] = (
        "c2"
    )
    assert [each.index for each in cluster(api).identities] == [1, 2]


def test_claims_of_the_previous_version_are_found_and_not_modified() -> None:
    api, members = three()
    claim = members[2][2]
    claim["metadata"]["labels"] = dict(members[2][0]["metadata"]["labels"])
    assert LABEL_INSTANCE in claim["metadata"]["labels"]
    del api.objects["/apis/apps/v1/namespaces/space/statefulsets/q-2-1"]
    del api.objects["/api/v1/namespaces/space/pods/q-2-1-0"]
    seen = found(api)
    assert seen.claims.keys() == MEMBER_IDS, "also without other references"
    assert label_drift(OWNER, seen) == ()


def test_cluster_id_of_a_member_is_that_of_its_immutable_claim_template() -> None:
    api, members = three()
    owned = members[2][0]
    owned["spec"]["template"]["spec"]["containers"] = [{"args": ["--override", "cluster.id=c9"]}]
    by_id = {each.node_id: each.cluster_id for each in cluster(api).incarnations}
    assert by_id == {1: "c1", 2: "c1", 3: "c1"}


def test_number_that_leaves_no_room_in_names_is_not_counted() -> None:
    api, members = three()
    for name in ("data-q-3-999999999-0", "data-q-2-17-0"):
        claim = {**members[1][2], "metadata": {"name": name, "labels": {}}}
        api.add("space", "persistentvolumeclaims", claim)
    assert cluster(api, wide=True).used_numbers == {1: 1, 2: 17, 3: 1}
