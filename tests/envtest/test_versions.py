"""Versions of the resources on a real API server: one object by either name, the stored version changed and changed back, and an
operator that supports only the older version.
"""

import copy
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import chart
from support.envtest.environment import Env, install_definitions
from support.envtest.killer import EAGER
from support.envtest.kube_api import ApiError, Json
from support.kind_env import kube
from support.kind_env.kube import Kube
from support.local_quorum import wait_until
from support.previous_version import OPERATOR_OF_ONE_VERSION, NoHistory, previous_operator
from support.yaml_text import read_yaml

pytestmark = pytest.mark.envtest

OLD, NEW = "v1alpha1", "v1beta1"
_TAKES_IT_UP = {404, 429, 500, 503}
"""What the API server may answer while it takes up a changed definition."""
_WINDOW = {"start": "0 2 * * sat", "durationMinutes": 60, "timeZone": "UTC"}
SPEC: Json = {
    "replicas": 5,
    "paused": True,
    "storage": {"size": "2Gi", "keepFailedFor": "72h"},
    "update": {"soakSeconds": 60, "windows": [_WINDOW]},
    "podTemplate": {"labels": {"team": "a"}},
}


def by(version: str, path: str) -> str:
    """The same object, read in another version."""
    return re.sub(r"/metadataquorum\.dev/\w+/", f"/metadataquorum.dev/{version}/", path)


def resource(name: str, version: str) -> Json:
    return {
        "apiVersion": f"metadataquorum.dev/{version}",
        "kind": "MetadataQuorum",
        "metadata": {"name": name},
        "spec": copy.deepcopy(SPEC),
    }


def _filled(spec: Json) -> Json:
    """The requested object, with the defaults of the API server."""
    return {
        key: {**spec[key], **value} if isinstance(value, dict) else value
        for key, value in SPEC.items()
    }


def same(one: Json, other: Json) -> bool:
    """Equal except for the version of the request and of the managed fields."""
    parts = ("spec", "status")
    return one["metadata"]["uid"] == other["metadata"]["uid"] and all(
        one.get(part) == other.get(part) for part in parts
    )


@pytest.fixture
def definition(env: Env) -> Iterator[str]:
    """Path of the definition, which is put back as it is checked in."""
    (file,) = [each for each in chart.CRDS if each.stem == "metadataquorums"]
    document = read_yaml(file.read_text())
    path = f"{kube.CRDS}/{document['metadata']['name']}"
    yield path
    install_definitions(env.api)


def status_of(api: Kube, path: str) -> int:
    """The HTTP status of a GET."""
    try:
        api.get(path)
    except ApiError as error:
        return error.status
    return 200


def is_withdrawn(api: Kube, path: str) -> bool:
    """Whether the API server serves the object by OLD alone. While it takes up the changed definition it still serves NEW, or
    answers with 500."""
    return (status_of(api, by(NEW, path)), status_of(api, by(OLD, path))) == (404, 200)


def rewritten(api: Kube, path: str) -> bool:
    """Write the object unchanged; True if it was stored in the other version. Until the API server has applied the changed
    definition it stores nothing, since nothing has changed.
    """
    try:
        found = api.get(path)
        put: Json = api.call("PUT", path, found)
    except ApiError as error:
        if error.status not in _TAKES_IT_UP:
            raise
        return False
    return bool(put["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"])


def store(api: Kube, definition: str, version: str, objects: list[str]) -> None:
    """The steps of docs/how-to/upgrade.md: store by another version, write all objects again, and remove the earlier one."""
    versions = api.get(definition)["spec"]["versions"]
    for each in versions:
        each["storage"] = each["name"] == version
    api.merge(definition, {"spec": {"versions": versions}})
    for path in objects:
        wait_until(lambda path=path: rewritten(api, path), f"{path} is stored as {version}")
    api.merge(f"{definition}/status", {"status": {"storedVersions": [version]}})


def test_object_survives_changes_of_the_stored_version_in_both_directions(
    env: Env, definition: str
) -> None:
    api = env.api
    old, new = (by(OLD, kube.quorums(env.namespace, name)) for name in ("old", "new"))
    api.call("POST", by(OLD, kube.quorums(env.namespace)), resource("old", OLD))
    api.call("POST", by(NEW, kube.quorums(env.namespace)), resource("new", NEW))
    api.merge(f"{old}/status", {"status": {"phase": "Ready", "clusterId": "c", "voters": 5}})
    before = {path: api.get(path) for path in (old, new)}
    assert api.get(definition)["status"]["storedVersions"] == [OLD]
    for path, found in before.items():
        assert found["spec"] == {**found["spec"], **_filled(found["spec"])}
        other = api.get(by(NEW, path))
        assert other["apiVersion"] == f"metadataquorum.dev/{NEW}"
        assert same(found, other)
    for version in (NEW, OLD):
        store(api, definition, version, [old, new])
        assert api.get(definition)["status"]["storedVersions"] == [version]
        for path, found in before.items():
            assert same(api.get(path), found)
            assert same(api.get(by(NEW, path)), found)
    # As an earlier chart has it, which `helm rollback` applies: objects that were made by the newer name stay.
    earlier = [each for each in api.get(definition)["spec"]["versions"] if each["name"] == OLD]
    api.merge(definition, {"spec": {"versions": earlier}})
    for path, found in before.items():
        wait_until(lambda path=path: is_withdrawn(api, path), f"{path} is served by {OLD} alone")
        assert same(api.get(by(OLD, path)), found)


def test_both_api_versions_reject_the_same_specs_with_the_same_message(idle_env: Env) -> None:
    wrong: list[Json] = [
        {"storage": {"keepFailedFor": "1 week"}},
        {"update": {"windows": [{"start": "saturdays", "durationMinutes": 60}]}},
        {"update": {"windows": [{"start": "0 2 * * sat"}]}},
        {"replicas": 4},
    ]
    for spec in wrong:
        reported = []
        for version in (OLD, NEW):
            body = {**resource("q", version), "spec": spec}
            path = by(version, kube.quorums(idle_env.namespace))
            with pytest.raises(ApiError) as refused:
                idle_env.api.call("POST", path, body)
            assert refused.value.status == 422
            reported.append(str(refused.value).replace(version, OLD))
        assert reported[0] == reported[1]


@pytest.mark.long
@pytest.mark.timeout(280)
def test_previous_operator_version_continues_with_objects_of_this_version(
    env: Env, tmp_path: Path
) -> None:
    try:
        older = previous_operator(tmp_path / "earlier-operator", OPERATOR_OF_ONE_VERSION)
    except NoHistory as error:
        pytest.skip(str(error))
    env.refuses = True  # rights are those of this version
    this, _ = env.add_operator(lease=False)
    this.start()
    quorum = env.create(
        3, disks=True, repair=EAGER, update={"soakSeconds": 5}, tls={"mode": "Disabled"}
    )
    load = env.start_load(quorum)
    before = quorum.wait_ready(3)
    assert this.stop() == 0
    env.api.merge(by(NEW, quorum.path), {"metadata": {"annotations": {"written": "by v1beta1"}}})
    earlier, _ = env.add_operator(lease=False, **older)
    earlier.start()
    failed = quorum.fail_disk(quorum.voter(leader=False, described=before))
    after = quorum.wait_replaced(failed, 3)
    assert len(after.keys & before.keys) == 2
    env.prove_nothing_lost(load)
