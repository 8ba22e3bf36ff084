"""`spec.podTemplate`: it reaches the pod, restarts only where it must, and changes nothing where it is left out."""

from typing import Any

import pytest

from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.desired import stateful_set
from quorum_operator.desired.names import (
    ANNOTATION_PREDECESSOR,
    ANNOTATION_RESTART,
    LABEL_QUORUM,
    Owner,
)
from quorum_operator.desired.stateful_set import Member
from quorum_operator.planner.observed import Identity

OWNER = Owner("demo", "space", "uid-1")
IDENTITY = Identity(1, "cluster", 1, "founder-uuid", 3, formed=True)
MEMBER = Member(2, 1, IDENTITY)

_MUCH = {
    "image": "r/n:1",
    "resources": {"requests": {"cpu": "100m"}},
    "config": {"metadata.log.segment.bytes": "1048576"},
    "spread": "Required",
    "nodeSelector": {"a": "b"},
    "tolerations": [{"key": "k"}],
    "affinity": {"nodeAffinity": {}},
}
_IMAGE = "metadataquorum/node:latest"
"""The earlier default: the API server has stored it in resources without spec.image."""
SPECS: dict[str, dict[str, Any]] = {
    "plain": {"image": _IMAGE},
    "much": _MUCH,
    "none": {"image": _IMAGE, "spread": "None"},
}

BEFORE = {
    "plain": ("8c5701d3e40aa216", "fcba577777fca77e"),
    "much": ("a0259b0e9237360c", "831f11b1b30990e7"),
    "none": ("245b107040a76005", "fcba577777fca77e"),
}
"""Template hash and restart hash as the version before the field made them. Another restart hash would restart the members of
every quorum when the operator is upgraded; another template hash writes templates anew, and counts for pods that are made later."""


def spec_of(requested: dict[str, Any], **more: Any) -> MetadataQuorumSpec:
    return MetadataQuorumSpec.model_validate({"podTemplate": requested, **more})


def template(spec: MetadataQuorumSpec) -> dict[str, Any]:
    return stateful_set.build_template(OWNER, spec, MEMBER)


def restart_hash(spec: MetadataQuorumSpec) -> str:
    return stateful_set.hashes(OWNER, spec, MEMBER).restart_hash


@pytest.mark.parametrize("case", BEFORE)
@pytest.mark.parametrize("left_out", [{}, {"podTemplate": {}}, {"podTemplate": {"labels": {}}}])
def test_operator_upgrade_restarts_no_pod(case: str, left_out: dict[str, Any]) -> None:
    spec = MetadataQuorumSpec.model_validate({**SPECS[case], **left_out})
    found = stateful_set.hashes(OWNER, spec, MEMBER)
    assert (found.template_hash, found.restart_hash) == BEFORE[case]


@pytest.mark.parametrize(
    "requested",
    [
        {"labels": {"team": "a"}},
        {"annotations": {"x": "y"}},
        {"imagePullSecrets": [{"name": "r"}]},
        {"priorityClassName": "high"},
        {"zoneSpread": "Required"},
        {"serviceAccountName": "default"},
    ],
    ids=str,
)
def test_changes_without_effect_on_the_process_wait_for_the_next_restart(
    requested: dict[str, Any],
) -> None:
    assert restart_hash(spec_of(requested)) == restart_hash(MetadataQuorumSpec())


@pytest.mark.parametrize(
    "requested",
    [
        {"env": [{"name": "A", "value": "1"}]},
        {"serviceAccountName": "members"},
        {"securityContext": {}},
        {"securityContext": {"runAsUser": 7}},
    ],
    ids=str,
)
def test_changed_process_settings_restart_the_pod(requested: dict[str, Any]) -> None:
    assert restart_hash(spec_of(requested)) != restart_hash(MetadataQuorumSpec())


def test_every_template_field_reaches_the_pod() -> None:
    made = template(
        spec_of(
            {
                "labels": {"team": "a"},
                "annotations": {"x": "y"},
                "imagePullSecrets": [{"name": "r"}],
                "priorityClassName": "high",
                "serviceAccountName": "members",
                "env": [
                    {"name": "A", "value": ""},
                    {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
                ],
            }
        )
    )
    pod = made["spec"]
    assert made["metadata"]["labels"]["team"] == "a"
    assert made["metadata"]["annotations"]["x"] == "y"
    assert pod["imagePullSecrets"] == [{"name": "r"}]
    assert (pod["priorityClassName"], pod["serviceAccountName"]) == ("high", "members")
    assert pod["automountServiceAccountToken"] is False
    assert pod["containers"][0]["env"] == [
        {"name": "A", "value": ""},
        {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
    ]


def test_selector_labels_cannot_be_overridden() -> None:
    own = template(MetadataQuorumSpec())["metadata"]
    forged = spec_of(
        {"labels": {LABEL_QUORUM: "other"}, "annotations": {ANNOTATION_RESTART: "other"}}
    )
    assert template(forged)["metadata"] == own


def test_missing_user_ids_are_defaulted_by_the_cluster_and_root_is_never_allowed() -> None:
    def security(requested: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = template(spec_of(requested))["spec"]["securityContext"]
        return found

    assert security({})["runAsUser"] == 65532
    free = security({"securityContext": {}})
    assert free["runAsNonRoot"] is True
    assert free["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"runAsUser", "runAsGroup", "fsGroup"} & free.keys()
    chosen = security({"securityContext": {"runAsUser": 1000, "supplementalGroups": [5]}})
    assert (chosen["runAsUser"], chosen["supplementalGroups"]) == (1000, [5])
    assert "fsGroup" not in chosen


@pytest.mark.parametrize(
    ("zones", "spread", "found"),
    [
        ("Preferred", "Preferred", [("hostname", "ScheduleAnyway"), ("zone", "ScheduleAnyway")]),
        ("Required", "None", [("zone", "DoNotSchedule")]),
        ("None", "Required", [("hostname", "DoNotSchedule")]),
    ],
)
def test_members_are_spread_over_zones_and_hosts(
    zones: str, spread: str, found: list[tuple[str, str]]
) -> None:
    pod = template(spec_of({"zoneSpread": zones}, spread=spread))["spec"]
    reported = [
        (each["topologyKey"].rsplit("/", 1)[1], each["whenUnsatisfiable"])
        for each in pod["topologySpreadConstraints"]
    ]
    assert reported == found
    selectors = [each["labelSelector"] for each in pod["topologySpreadConstraints"]]
    assert all(each == selectors[0] for each in selectors)


def test_member_whose_place_is_taken_is_not_counted_in_its_zone() -> None:
    spec = spec_of({"zoneSpread": "Required"}, spread="Preferred")
    successor = Member(2, 2, IDENTITY, replaces=1, predecessor="demo-2-1")
    built = stateful_set.build(OWNER, spec, successor)
    assert built["metadata"]["annotations"][ANNOTATION_PREDECESSOR] == "demo-2-1"
    hosts, zones = built["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert zones["labelSelector"]["matchExpressions"] == [
        {
            "key": "statefulset.kubernetes.io/pod-name",
            "operator": "NotIn",
            "values": ["demo-2-1-0"],
        }
    ]
    assert zones["labelSelector"]["matchLabels"] == hosts["labelSelector"]["matchLabels"]
    assert "matchExpressions" not in hosts["labelSelector"], "a failed host is avoided"
    without = stateful_set.hashes(OWNER, spec, Member(2, 2, IDENTITY, replaces=1))
    found = stateful_set.hashes(OWNER, spec, successor)
    assert found.restart_hash == without.restart_hash
    no_zones = spec_of({}, spread="Preferred")
    assert stateful_set.build_template(OWNER, no_zones, successor) == stateful_set.build_template(
        OWNER, no_zones, Member(2, 2, IDENTITY)
    )
