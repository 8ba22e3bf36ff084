"""The number of an authority in the annotation of a holder's Secret, which anybody may edit."""

import pytest

from quorum_operator.certificates import documents
from support.secured_quorum import Env, leaf_path, secret_path


@pytest.mark.parametrize("number", ["0", "2", "100", "999999999999999999", "-1", "first"])
def test_a_wrong_number_makes_no_other_authority(number: str) -> None:
    """With one that is too high the present authority was not found, and each reconcile created another one."""
    env = Env()
    env.settle()
    secret = env.api.objects[leaf_path(2)]
    secret["metadata"]["annotations"][documents.ANNOTATION_GENERATION] = number
    env.api.touch(secret)
    env.api.writes.clear()
    env.looks(4)
    assert env.api.created("secrets") == []
    assert env.ready()["reason"] == "CertificatesIssued"


def test_the_number_still_leads_to_an_authority_that_no_bundle_has() -> None:
    """All bundles are gone, and the Secrets of earlier authorities as well."""
    env = Env()
    env.settle()
    env.api.objects[secret_path("demo-ca-70")] = env.api.objects.pop(secret_path("demo-ca-1"))
    env.api.objects[secret_path("demo-ca-70")]["metadata"]["name"] = "demo-ca-70"
    del env.api.objects["/api/v1/namespaces/space/configmaps/demo-trust"]
    for node_id in (1, 2, 3):
        secret = env.api.objects[leaf_path(node_id)]
        secret["metadata"]["annotations"][documents.ANNOTATION_GENERATION] = "70"
        secret["data"]["ca.crt"] = ""
    env.api.writes.clear()
    env.looks(1)
    assert "demo-ca-71" in env.api.created("secrets"), "its content is not that of authority 70"
