"""Owners and labels of the objects with certificates are edited: what is provably the quorum's gets them back, nothing else does."""

import copy
from base64 import b64encode
from collections.abc import Callable

import pytest

from quorum_operator.certificates import documents, issuing
from quorum_operator.desired.names import Owner
from support.in_memory_kube_api import NAME, OWNER, SPACE, Object
from support.secured_quorum import TRUST, Env, leaf_path, secret_path

AUTHORITY = secret_path("demo-ca-1")
OBJECTS = (AUTHORITY, TRUST, leaf_path(2), secret_path("demo-admin-tls"))
OTHER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "of-another"}


def _disown(found: Object) -> None:
    found["metadata"].pop("ownerReferences")


def _share(found: Object) -> None:
    found["metadata"]["ownerReferences"].append(OTHER)


def _strip(found: Object) -> None:
    found["metadata"]["labels"] = {"kept": "by-hand"}


@pytest.mark.parametrize("path", OBJECTS)
@pytest.mark.parametrize("edit", [_disown, _share, _strip])
def test_edited_owner_and_labels_are_restored(path: str, edit: Callable[[Object], None]) -> None:
    """Without its owner the object would not be written any more, and outlive the resource; an authority would be replaced."""
    env = Env()
    env.settle()
    before = copy.deepcopy(env.api.objects[path])
    edit(env.api.objects[path])
    env.settle()
    found = env.api.objects[path]
    assert found["metadata"]["ownerReferences"] == [OWNER.reference()]
    assert found["metadata"]["labels"].items() >= OWNER.labels.items()
    assert found["data"] == before["data"]
    assert env.ready()["status"] == "True"
    assert env.api.status["tls"]["authority"] == 1


def test_all_objects_but_one_certificate_are_restored() -> None:
    env = Env()
    env.settle()
    paths = [each for each in env.api.objects if each.endswith(("-tls", "-ca-1", "-trust"))]
    for each in paths:
        if each != leaf_path(3):
            _disown(env.api.objects[each])
    env.settle()
    assert all(env.api.objects[each]["metadata"]["ownerReferences"] for each in paths)
    assert env.api.status["tls"]["authority"] == 1


def test_authority_that_nobody_trusts_is_not_taken_in() -> None:
    """Whoever may create Secrets must not become the quorum's authority."""
    env = Env()
    env.settle()
    pair = issuing.new_authority(Owner(NAME, SPACE, ""), 2, env.nodes.now)
    made = documents.authority_secret(OWNER, 2, pair, signing=True)
    _disown(made)
    path = secret_path("demo-ca-2")
    env.api.objects[path] = made
    made["metadata"] |= {"uid": "by-hand", "resourceVersion": "1"}
    env.looks(5)
    assert "ownerReferences" not in env.api.objects[path]["metadata"]
    assert env.api.status["tls"]["authority"] == 1


def test_certificate_of_another_authority_is_not_taken_in() -> None:
    env = Env()
    env.settle()
    secret = env.api.objects[leaf_path(2)]
    _disown(secret)
    foreign = issuing.new_authority(OWNER, 1, env.nodes.now)
    secret["data"] |= {
        "ca.crt": b64encode(foreign.certificate.pem.encode()).decode(),
        "tls.crt": "",
    }
    env.looks(5)
    assert "ownerReferences" not in env.api.objects[leaf_path(2)]["metadata"]
    assert "Secret/demo-2-1-tls" in env.ready()["message"]
    assert ".." not in env.ready()["message"]


def test_paused_quorum_keeps_the_edit() -> None:
    env = Env()
    env.settle()
    env.api.change_spec(paused=True)
    _disown(env.api.objects[TRUST])
    env.looks(5)
    assert "ownerReferences" not in env.api.objects[TRUST]["metadata"]
