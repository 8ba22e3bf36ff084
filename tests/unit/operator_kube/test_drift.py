"""Drift: a change by another client that changes what an object does; not the defaults that the API server fills in."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.desired import base_objects, stateful_set
from quorum_operator.desired.names import Owner
from quorum_operator.kube.drift import drift, removals, template_drift
from quorum_operator.planner.observed import Identity

Object = dict[str, Any]
OWNER = Owner("q", "s", "uid-q")
SPEC = MetadataQuorumSpec.model_validate(
    {
        "config": {"metadata.log.segment.bytes": "1048576"},
        "resources": {"requests": {"cpu": "0.5", "memory": "1024Mi"}},
        "affinity": {"podAntiAffinity": {}},
    }
)
MEMBER = stateful_set.Member(2, 1, Identity(1, "c", 1, "u", 3, True))


def wanted_set() -> Object:
    return stateful_set.build(OWNER, SPEC, MEMBER)


def stored_set() -> Object:
    """With what an API server 1.34 fills in."""
    found = copy.deepcopy(wanted_set())
    found["status"] = {"replicas": 1}
    template = found["spec"]["template"]
    template["metadata"]["creationTimestamp"] = None
    pod = template["spec"]
    pod |= {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst"}
    pod |= {"schedulerName": "default-scheduler", "serviceAccount": "default"}
    pod["volumes"][0]["configMap"]["defaultMode"] = 420
    container = pod["containers"][0]
    container |= {"terminationMessagePath": "/dev/termination-log"}
    container |= {"terminationMessagePolicy": "File"}
    container["resources"] = {"requests": {"cpu": "500m", "memory": "1Gi"}}
    found["spec"]["volumeClaimTemplates"][0]["status"] = {"phase": "Pending"}
    found["spec"] |= {"minReadySeconds": 0, "ordinals": {"start": 0}}
    return found


def base(kind: str, name: str) -> Object:
    found = base_objects.build_all(OWNER, SPEC)
    return next(each for each in found if (each["kind"], each["metadata"]["name"]) == (kind, name))


def stored(wanted: Object) -> Object:
    found = copy.deepcopy(wanted)
    found["metadata"] |= {"uid": "u", "resourceVersion": "7", "managedFields": []}
    found["metadata"]["labels"] |= {"team": "x"}
    if found["kind"] == "Service":
        found["spec"] |= {"clusterIPs": ["10.0.0.1"], "sessionAffinity": "None"}
        found["spec"]["internalTrafficPolicy"] = "Cluster"
    return found


@pytest.mark.requirement("OP-01")
def test_defaults_set_by_the_api_server_are_no_drift() -> None:
    assert template_drift(wanted_set(), stored_set()) is None
    for each in base_objects.build_all(OWNER, SPEC):
        assert drift(each, stored(each)) is None, each["kind"]
        assert removals(each, stored(each)) is None, each["kind"]


def container_of(found: Object) -> Object:
    container: Object = found["spec"]["template"]["spec"]["containers"][0]
    return container


def pod_of(found: Object) -> Object:
    pod: Object = found["spec"]["template"]["spec"]
    return pod


def mount_of(found: Object) -> Object:
    """Of the data volume. With another directory of it the process would begin from nothing."""
    mount: Object = container_of(found)["volumeMounts"][0]
    return mount


SET_CHANGES: dict[str, Callable[[Object], Any]] = {
    "image": lambda found: container_of(found).update(image="other:1"),
    "an argument": lambda found: container_of(found)["args"].append("--x"),
    "an argument less": lambda found: container_of(found)["args"].pop(),
    "a variable": lambda found: container_of(found).update(env=[{"name": "A", "value": "b"}]),
    "a command": lambda found: container_of(found).update(command=["sleep", "9"]),
    "resources": lambda found: container_of(found)["resources"]["requests"].update(cpu="9"),
    "a limit": lambda found: container_of(found)["resources"].update(limits={"cpu": "1"}),
    "a probe": lambda found: container_of(found).pop("livenessProbe"),
    "a sidecar": lambda found: pod_of(found)["containers"].append({"name": "x", "image": "y"}),
    "an init container": lambda found: pod_of(found).update(initContainers=[{"name": "x"}]),
    "a node selector": lambda found: pod_of(found).update(nodeSelector={"no": "where"}),
    "a toleration": lambda found: pod_of(found).update(tolerations=[{"operator": "Exists"}]),
    "host network": lambda found: pod_of(found).update(hostNetwork=True),
    "the grace period": lambda found: pod_of(found).update(terminationGracePeriodSeconds=0),
    "the user": lambda found: pod_of(found)["securityContext"].update(runAsUser=0),
    "affinity": lambda found: pod_of(found).update(affinity={}),
    "a pod label": lambda found: found["spec"]["template"]["metadata"]["labels"].pop(
        "metadataquorum.dev/node-id"
    ),
    "a mount's directory": lambda found: mount_of(found).update(subPath="other"),
    "another scheduler": lambda found: pod_of(found).update(schedulerName="nobody"),
    "name resolution": lambda found: pod_of(found).update(dnsPolicy="Default"),
    "a scheduling gate": lambda found: pod_of(found).update(schedulingGates=[{"name": "x/y"}]),
    "a late probe": lambda found: container_of(found)["readinessProbe"].update(
        initialDelaySeconds=3600
    ),
    "the container's user": lambda found: container_of(found)["securityContext"].update(
        runAsUser=0
    ),
    "a capability": lambda found: container_of(found)["securityContext"]["capabilities"].update(
        add=["SYS_ADMIN"]
    ),
    "a port of the host": lambda found: container_of(found)["ports"][0].update(hostPort=80),
    "keys of the config": lambda found: pod_of(found)["volumes"][0]["configMap"].update(
        items=[{"key": "x", "path": "y"}]
    ),
    "where it reports its end": lambda found: container_of(found).update(
        terminationMessagePath="/tmp/x"
    ),
    "updates": lambda found: found["spec"].update(updateStrategy={"type": "RollingUpdate"}),
    "the first ordinal": lambda found: found["spec"].update(ordinals={"start": 1}),
    "when it is available": lambda found: found["spec"].update(minReadySeconds=600),
    "the claim's fate": lambda found: found["spec"].update(
        persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete", "whenScaled": "Delete"}
    ),
}


@pytest.mark.parametrize("change", SET_CHANGES.values(), ids=SET_CHANGES.keys())
@pytest.mark.requirement("OP-01")
def test_stateful_set_changes_are_detected(change: Callable[[Object], Any]) -> None:
    found = stored_set()
    change(found)
    if change is SET_CHANGES["affinity"]:
        assert template_drift(wanted_set(), found) is None, "an empty part was compared"
    else:
        assert template_drift(wanted_set(), found) is not None


BASE_CHANGES: dict[tuple[str, str, str], Callable[[Object], Any]] = {
    ("ConfigMap", "q-config", "changed"): lambda found: found["data"].update(
        {"node.properties": "x=1\n"}
    ),
    ("ConfigMap", "q-config", "emptied"): lambda found: found.pop("data"),
    ("ConfigMap", "q-config", "added to"): lambda found: found["data"].update(more="x"),
    ("ConfigMap", "q-config", "disowned"): lambda found: found["metadata"].pop("ownerReferences"),
    ("ConfigMap", "q-config", "unlabelled"): lambda found: found["metadata"].update(labels={}),
    ("Service", "q-nodes", "selects more"): lambda found: found["spec"]["selector"].update(a="b"),
    ("Service", "q-admin", "selects other"): lambda found: found["spec"].update(
        selector={"app.kubernetes.io/instance": "other"}
    ),
    ("Service", "q-admin", "a port more"): lambda found: found["spec"]["ports"].append({"port": 1}),
    ("Service", "q-bootstrap", "other port"): lambda found: found["spec"]["ports"][0].update(
        targetPort=1
    ),
    ("Service", "q-nodes", "hides"): lambda found: found["spec"].pop("publishNotReadyAddresses"),
    ("Service", "q-bootstrap", "publishes"): lambda found: found["spec"].update(
        publishNotReadyAddresses=True
    ),
    ("Service", "q-bootstrap", "of one host"): lambda found: found["spec"].update(
        internalTrafficPolicy="Local"
    ),
    ("Service", "q-admin", "sticky"): lambda found: found["spec"].update(
        sessionAffinity="ClientIP"
    ),
    ("Service", "q-nodes", "close"): lambda found: found["spec"].update(
        trafficDistribution="PreferClose"
    ),
    ("Service", "q-admin", "exposed"): lambda found: found["spec"].update(type="LoadBalancer"),
    ("PodDisruptionBudget", "q", "loosened"): lambda found: (
        found["spec"].pop("minAvailable"),
        found["spec"].update(maxUnavailable=3),
    ),
    ("PodDisruptionBudget", "q", "tightened"): lambda found: found["spec"].update(minAvailable=9),
    ("PodDisruptionBudget", "q", "narrowed"): lambda found: found["spec"]["selector"].update(
        matchExpressions=[{"key": "x", "operator": "Exists"}]
    ),
}


@pytest.mark.parametrize(
    ("place", "change"), BASE_CHANGES.items(), ids=["-".join(each) for each in BASE_CHANGES]
)
@pytest.mark.requirement("OP-01")
def test_changes_of_the_other_objects_are_detected(
    place: tuple[str, str, str], change: Callable[[Object], Any]
) -> None:
    wanted = base(place[0], place[1])
    found = stored(wanted)
    change(found)
    assert drift(wanted, found) is not None


@pytest.mark.requirement("OP-01")
def test_fields_that_apply_would_keep_are_removed() -> None:
    wanted = base("PodDisruptionBudget", "q")
    found = stored(wanted)
    del found["spec"]["minAvailable"]
    found["spec"]["maxUnavailable"] = 9
    found["spec"]["selector"]["matchLabels"]["x"] = "y"
    patch = removals(wanted, found)
    assert patch is not None
    assert patch["spec"]["maxUnavailable"] is None
    assert patch["spec"]["selector"]["matchLabels"]["x"] is None
    assert patch["spec"]["selector"]["matchLabels"]["app.kubernetes.io/instance"] == "q"


@pytest.mark.requirement("OP-01")
def test_type_of_a_service_changes_together_with_the_fields_that_it_requires() -> None:
    """The API server refuses a Service of type ExternalName without a name."""
    for name in ("q-admin", "q-nodes"):
        wanted = base("Service", name)
        found = stored(wanted)
        found["spec"] = {"type": "ExternalName", "externalName": "x.example"}
        patch = removals(wanted, found)
        assert patch is not None
        assert patch["spec"] == {**wanted["spec"], "externalName": None}


@pytest.mark.requirement("OP-01")
def test_foreign_port_of_a_service_is_removed() -> None:
    wanted = base("Service", "q-admin")
    found = stored(wanted)
    assert removals(wanted, found) is None
    for each in found["spec"]["ports"]:
        each["nodePort"] = 30_123
    found["spec"]["ports"].append({"name": "x", "port": 999, "protocol": "TCP", "targetPort": 1})
    assert drift(wanted, found) is not None
    patch = removals(wanted, found)
    assert patch is not None
    kept = patch["spec"]["ports"]
    assert [each["port"] for each in kept] == [each["port"] for each in wanted["spec"]["ports"]]
    assert all(each["nodePort"] == 30_123 for each in kept)
