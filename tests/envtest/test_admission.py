"""An invalid resource is rejected at apply, and the message names a remedy (CEL, schema)."""

from collections.abc import Iterator

import pytest

from quorum_operator.config_crd import CONFIG_KEYS, REFUSED
from support.envtest.cluster import ApiServerCluster
from support.envtest.environment import Env
from support.envtest.kube_api import ApiError, Json
from support.envtest.quorum import ApiServerQuorum
from support.kind_env import kube
from support.kind_env.kube import Kube

pytestmark = pytest.mark.envtest


def _broker(*names: str) -> Json:
    """An identity with these DNS names."""
    return {"name": "b", "role": "broker", "nodeId": 1, "dnsNames": list(names)}


_WRONG: dict[str, tuple[Json, str]] = {
    "even": ({"replicas": 4}, "use an odd spec.replicas, or set spec.allowEvenReplicas"),
    "zero": ({"replicas": 0}, "can't be scaled to 0"),
    "negative": ({"replicas": -1}, "at least 1"),
    "too many": ({"replicas": 9}, "at most 7"),
    "not a number": ({"replicas": "three"}, "integer"),
    "tiny disk": ({"storage": {"size": "1Ki"}}, "at least 64Mi"),
    "no quantity": ({"storage": {"size": "big"}}, "quantity"),
    "operator's property": ({"config": {"node.id": "7"}}, "list its id in spec.retire"),
    "unknown property": (
        {"config": {"node.ids": "7"}},
        "docs/reference/configuration.md lists them",
    ),
    "a certificate": ({"config": {"ssl.keystore.key": "x"}}, "Set spec.tls"),
    "one of a listener": (
        {"config": {"listener.name.admin.ssl.client.auth": "none"}},
        "Set spec.tls",
    ),
    **{
        f"refused {key}": ({"config": {key: "1"}}, each.why)
        for each in REFUSED
        for key in each.keys
    },
    "operator's label": (
        {"podTemplate": {"labels": {"app.kubernetes.io/name": "x"}}},
        "choose other keys",
    ),
    "operator's annotation": (
        {"podTemplate": {"annotations": {"metadataquorum.dev/restart-hash": "x"}}},
        "choose other keys",
    ),
    "root": ({"podTemplate": {"securityContext": {"runAsUser": 0}}}, "do not run as root"),
    "a variable twice": (
        {"podTemplate": {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}},
        "Duplicate value",
    ),
    "node id 0": ({"retire": [0]}, "start at 1"),
    "unknown policy": ({"deletionPolicy": "Maybe"}, "Retain"),
    "unknown order": ({"replacementOrder": "Never"}, "AddFirst"),
    "no trusted object": ({"tls": {"trustedCAs": [{}]}}, "set one of secret and configMap"),
    "two trusted objects": (
        {"tls": {"trustedCAs": [{"secret": {"name": "a"}, "configMap": {"name": "b"}}]}},
        "set one of secret and configMap",
    ),
    "an issuer without its authority": (
        {"tls": {"issuerRef": {"name": "i"}}},
        "name the issuer's authority in spec.tls.trustedCAs",
    ),
    "two who sign": (
        {
            "tls": {
                "issuerRef": {"name": "i"},
                "caSecret": {"name": "c"},
                "trustedCAs": [{"secret": {"name": "a"}}],
            }
        },
        "set one of them",
    ),
    "an authority without a name": ({"tls": {"caSecret": {}}}, "spec.tls.caSecret.name"),
    "a DNS name beyond ASCII": (
        {"tls": {"identities": [_broker("br\u00f6ker.example")]}},
        "spec.tls.identities[0].dnsNames[0]",
    ),
    "negative debounce": ({"repair": {"debounceSeconds": -1}}, "greater than or equal to 0"),
    "bad cluster id": ({"clusterId": "a b"}, "spec.clusterId"),
}

_RIGHT: dict[str, Json] = {
    "one": {"replicas": 1},
    "seven": {"replicas": 7},
    "even on purpose": {"replicas": 4, "allowEvenReplicas": True},
    "all config": {"config": {"controller.quorum.fetch.timeout.ms": "2000"}},
    "nothing said": {},
    "an authority and others to trust": {
        "tls": {
            "caSecret": {"name": "corporate"},
            "trustedCAs": [{"secret": {"name": "a", "key": "b.pem"}}, {"configMap": {"name": "c"}}],
        }
    },
    "an issuer": {
        "tls": {"issuerRef": {"name": "i"}, "trustedCAs": [{"secret": {"name": "a"}}]},
    },
    "names of a broker": {
        "tls": {"identities": [_broker("*.example", "b_1.example", "10.0.0.1", "xn--brker-kua")]},
    },
    "many properties": {"config": dict.fromkeys(CONFIG_KEYS[:128], "1")},
    "all other properties": {"config": dict.fromkeys(CONFIG_KEYS[128:], "1")},
    "a pod template": {
        "podTemplate": {
            "labels": {"team": "a", "metadataquorum.example.org/x": "y"},
            "annotations": {"example.org/a": "b"},
            "imagePullSecrets": [{"name": "registry"}],
            "priorityClassName": "high",
            "serviceAccountName": "members",
            "env": [
                {"name": "TZ", "value": "UTC"},
                {"name": "HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
            ],
            "securityContext": {"runAsUser": 1000, "fsGroup": 1000},
            "zoneSpread": "Preferred",
        }
    },
}

_WRONG_NAMES = {"q" * 41: "choose a shorter name", "1q": "start with a letter"}


@pytest.fixture(scope="module")
def place(
    api: Kube, cluster: ApiServerCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Env]:
    """One namespace for all: what is refused leaves nothing, the rest is a dry run."""
    made = Env(api, cluster, tmp_path_factory.mktemp("admission"), warm=True)
    try:
        yield made
    finally:
        made.remove()


@pytest.fixture(scope="module")
def quorum(place: Env) -> ApiServerQuorum:
    """A resource that no operator reconciles."""
    return place.apply(3, name="existing")


def create(place: Env, document: Json) -> Json:
    """A dry run: admitted and defaulted, but not stored."""
    path = kube.quorums(place.namespace)
    return place.api.call("POST", path, document, query={"dryRun": "All"})


@pytest.mark.parametrize("case", _WRONG)
def test_invalid_spec_is_rejected(place: Env, case: str) -> None:
    spec, says = _WRONG[case]
    document = place.document("q", 3)
    document["spec"] |= spec
    with pytest.raises(ApiError) as refused:
        create(place, document)
    assert refused.value.status == 422
    assert says in refused.value.body


@pytest.mark.parametrize("name", _WRONG_NAMES)
def test_invalid_name_is_rejected(place: Env, name: str) -> None:
    with pytest.raises(ApiError) as refused:
        create(place, place.document(name, 3))
    assert refused.value.status == 422
    assert _WRONG_NAMES[name] in refused.value.body


@pytest.mark.parametrize("case", _RIGHT)
def test_valid_spec_is_accepted_with_its_defaults(place: Env, case: str) -> None:
    document = place.document("q" * 40, 3)
    document["spec"] = _RIGHT[case]
    made = create(place, document)
    assert made["spec"]["replicas"] == _RIGHT[case].get("replicas", 3)
    assert made["spec"]["deletionPolicy"] == "Retain"
    assert made["spec"]["repair"]["debounceSeconds"] == 30


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"replicas": 0}, "can't be scaled to 0"),
        ({"replicas": 4}, "odd"),
        ({"clusterId": "another"}, "immutable"),
    ],
)
def test_invalid_change_of_an_existing_quorum_is_rejected(
    quorum: ApiServerQuorum, change: Json, says: str
) -> None:
    before = quorum.resource()["spec"]
    with pytest.raises(ApiError) as refused:
        quorum.patch(change)
    assert refused.value.status == 422
    assert says in refused.value.body
    assert quorum.resource()["spec"] == before


@pytest.mark.parametrize("replicas", [0, 4, 9])
def test_scale_subresource_enforces_the_same_rules(quorum: ApiServerQuorum, replicas: int) -> None:
    before = quorum.resource()["spec"]["replicas"]
    with pytest.raises(ApiError) as refused:
        quorum.scale(replicas)
    assert refused.value.status == 422
    assert quorum.resource()["spec"]["replicas"] == before


def test_scale_subresource_changes_the_spec(quorum: ApiServerQuorum) -> None:
    quorum.scale(5)
    assert quorum.resource()["spec"]["replicas"] == 5
