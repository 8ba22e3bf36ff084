"""Every pod of the product is admitted where the `restricted` Pod Security Standard is enforced.

The admission is the API server's own. The members' pods are those that the StatefulSets' controller makes; the pods of
the operator, the pipeline and the example brokers are made from their templates.
"""

import copy
from collections.abc import Callable

import pytest

from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.desired import stateful_set
from quorum_operator.desired.names import Owner
from quorum_operator.planner.observed import Identity
from support import chart
from support.envtest.environment import Env
from support.envtest.kube_api import ApiError, Json
from support.kind_env import kube
from support.kind_env.testbed import programs
from support.yaml_text import read_yaml

pytestmark = pytest.mark.envtest

_ENFORCED = {
    "pod-security.kubernetes.io/enforce": "restricted",
    "pod-security.kubernetes.io/enforce-version": "latest",
}
_PIPELINE = ("pipeline.enabled=true", "pipeline.bootstrap=q-bootstrap.n.svc:9093")
_EXECUTORS = "pipeline.master=k8s://https://kubernetes.default.svc"


@pytest.fixture(scope="module")
def restricted(idle_env: Env) -> Env:
    """The env of this file, in a namespace that enforces the standard."""
    labels = {"metadata": {"labels": _ENFORCED}}
    idle_env.api.merge(f"{kube.NAMESPACES}/{idle_env.namespace}", labels)
    return idle_env


def admit(env: Env, template: Json) -> None:
    """Makes a pod of a template, as a controller would; a dry run. Raises ApiError if it is refused."""
    spec = copy.deepcopy(template["spec"]) | {"serviceAccountName": "default"}
    named = {each["name"] for each in spec.setdefault("volumes", [])}
    mounted = {each["name"] for one in spec["containers"] for each in one.get("volumeMounts", ())}
    # A StatefulSet's controller adds the claims.
    claims = (
        {"name": name, "persistentVolumeClaim": {"claimName": name}} for name in mounted - named
    )
    spec["volumes"] += claims
    meta = {**template.get("metadata", {}), "name": "made-of-a-template"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
    path = kube.core(env.namespace, "pods")
    env.api.call("POST", path, pod, query={"dryRun": "All"})


def member_template(**spec: object) -> Json:
    """The pod template of a member, from a spec with every field that reaches a pod."""
    owner = Owner("q", "n", "uid")
    identity = Identity(1, "c", 1, "u", 3, formed=True)
    read = MetadataQuorumSpec.model_validate(spec)
    return stateful_set.build_template(owner, read, stateful_set.Member(2, 1, identity))


def rendered(*settings: str) -> list[Json]:
    return chart.render(programs.helm(), *settings)


def driver(documents: list[Json]) -> Json:
    """The template of the pipeline's driver, of the Deployment or of the CronJob."""
    for each in chart.of_kind(documents, "CronJob"):
        found: Json = each["spec"]["jobTemplate"]["spec"]["template"]
        return found
    (one,) = (
        each
        for each in chart.of_kind(documents, "Deployment")
        if each["metadata"]["name"].endswith("-pipeline")
    )
    template: Json = one["spec"]["template"]
    return template


def executor() -> Json:
    (settings,) = (
        each["data"]["executor.yaml"]
        for each in chart.of_kind(rendered(*_PIPELINE, _EXECUTORS), "ConfigMap")
    )
    pod: Json = read_yaml(settings)
    # Spark fills in the image.
    pod["spec"]["containers"][0]["image"] = "quorum-pipeline"
    return pod


def example_brokers() -> list[Json]:
    file = chart.ROOT / "examples" / "kafka" / "brokers.yaml"
    documents = chart.of_kind(chart.objects(file.read_text()), "StatefulSet", "Deployment", "Job")
    return [each["spec"]["template"] for each in documents]


@pytest.mark.requirement("OP-01")
def test_quorum_forms_in_a_namespace_with_the_restricted_pod_security_standard(
    restricted: Env,
) -> None:
    operator, _ = restricted.add_operator()
    operator.start()
    quorum = restricted.create(3)
    reported = [event for event in restricted.events("q-1-1") if event["type"] == "Warning"]
    assert reported == [], "the StatefulSets' controller was refused"
    operator.kill()
    restricted.discard(quorum)


@pytest.mark.requirement("OP-01")
def test_pods_with_every_spec_field_set_are_admitted(restricted: Env) -> None:
    admit(
        restricted,
        member_template(
            resources={"limits": {"memory": "1Gi"}},
            affinity={"podAntiAffinity": {}},
            tolerations=[{"key": "k", "operator": "Exists"}],
            nodeSelector={"disk": "ssd"},
            spread="Required",
        ),
    )


@pytest.mark.requirement("OP-01")
def test_pods_of_operator_pipeline_and_examples_are_admitted(restricted: Env) -> None:
    (operator,) = chart.of_kind(chart.plain(), "Deployment")
    admit(restricted, operator["spec"]["template"])
    admit(restricted, driver(rendered(*_PIPELINE)))
    admit(restricted, driver(rendered(*_PIPELINE, "pipeline.schedule=0 * * * *")))
    admit(restricted, driver(rendered(*_PIPELINE, _EXECUTORS)))
    admit(restricted, executor())
    brokers = example_brokers()
    assert brokers
    for each in brokers:
        admit(restricted, each)


def _escalating(template: Json) -> None:
    del template["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"]


def _capable(template: Json) -> None:
    del template["spec"]["containers"][0]["securityContext"]["capabilities"]


def _root(template: Json) -> None:
    del template["spec"]["securityContext"]["runAsNonRoot"]


def _unconfined(template: Json) -> None:
    del template["spec"]["securityContext"]["seccompProfile"]


def _host_path(template: Json) -> None:
    template["spec"]["volumes"].append({"name": "h", "hostPath": {"path": "/"}})


@pytest.mark.parametrize(
    ("weaken", "says"),
    [
        (_escalating, "allowPrivilegeEscalation"),
        (_capable, "capabilities"),
        (_root, "runAsNonRoot"),
        (_unconfined, "seccompProfile"),
        (_host_path, "hostPath"),
    ],
)
@pytest.mark.requirement("OP-01")
def test_each_security_context_field_is_required_by_the_admission(
    restricted: Env, weaken: Callable[[Json], None], says: str
) -> None:
    """Without any one of them the pod is refused: the admission is on, and nothing is left over."""
    template = copy.deepcopy(member_template())
    admit(restricted, template)
    weaken(template)
    with pytest.raises(ApiError) as refused:
        admit(restricted, template)
    assert refused.value.status == 403
    assert says in refused.value.body
