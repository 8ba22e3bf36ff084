"""A certificate that members would refuse is found before any member uses it."""

import asyncio
import time
from base64 import b64decode
from typing import cast

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509 import DNSName, NameConstraints, ObjectIdentifier, UniformResourceIdentifier
from cryptography.x509.oid import ExtendedKeyUsageOID

from quorum_operator.certificates import checks, documents, holders, issuing, pem, store
from quorum_operator.certificates.checks import Problem, Reason
from quorum_operator.certificates.handshake import rejection
from quorum_operator.certificates.issuing import Pair
from quorum_operator.certificates.objects import Objects
from quorum_operator.certificates.steps import WriteLeaf
from quorum_operator.certificates.store import Found
from quorum_operator.desired.names import Owner
from quorum_operator.kube.client import KubeApi
from support.generated_certificates import (
    BOTH_USAGES,
    DAY,
    NOW,
    Issued,
    authority,
    issue,
    key_pem,
)
from support.generated_certificates import pem as pem_of
from support.in_memory_kube_api import InMemoryKubeApi

OWNER = Owner("demo", "space", "uid")
MEMBER = holders.member(OWNER, 1, 1)
ADMIN = holders.person("admin")
ROOT = authority("Corporate CA")
SERVER_ONLY = (ExtendedKeyUsageOID.SERVER_AUTH,)
CLIENT_ONLY = (ExtendedKeyUsageOID.CLIENT_AUTH,)


def pair_of(made: Issued) -> Pair:
    return Pair(pem.read(pem_of(made.certificate)), key_pem(made.key).decode())


def limited(constraints: NameConstraints) -> Issued:
    """An authority that may certify only some names."""
    further = {NameConstraints.oid.dotted_string: constraints.public_bytes()}
    return issue("Limited", authority=True, hosts=(), usages=None, further=further)


@pytest.mark.parametrize(
    ("usages", "as_member", "as_client"),
    [
        (BOTH_USAGES, True, True),
        (None, True, True),
        (CLIENT_ONLY, False, True),
        (SERVER_ONLY, False, False),
    ],
)
def test_member_is_client_and_server_and_others_are_clients(
    usages: tuple[ObjectIdentifier, ...] | None, as_member: bool, as_client: bool
) -> None:
    made, trusted = pair_of(issue(issuer=ROOT, usages=usages)), pair_of(ROOT).certificate
    purpose = "unsuitable certificate purpose"
    assert rejection(made, trusted, serves=True) == (None if as_member else purpose)
    assert rejection(made, trusted, serves=False) == (None if as_client else purpose)


def test_times_do_not_count_because_the_clock_here_may_be_wrong() -> None:
    made = pair_of(issue(issuer=ROOT, start=NOW - 900 * DAY, end=NOW - 800 * DAY))
    assert rejection(made, pair_of(ROOT).certificate, serves=True) is None


def test_weak_keys_are_refused() -> None:
    made = pair_of(issue(issuer=ROOT, key=rsa.generate_private_key(65537, 1024)))
    found = rejection(made, pair_of(ROOT).certificate, serves=True)
    assert found is not None
    assert "KEY_TOO_SMALL" in found


@pytest.mark.parametrize(
    "constraints",
    [
        NameConstraints([DNSName("elsewhere.example.com")], None),
        NameConstraints(None, [DNSName("svc")]),
        NameConstraints([UniformResourceIdentifier("elsewhere.example.com")], None),
    ],
)
def test_names_that_the_authority_may_not_certify_are_refused(constraints: NameConstraints) -> None:
    signer = pair_of(limited(constraints))
    made = issuing.issue(OWNER, MEMBER, signer, time.time())
    assert rejection(made, signer.certificate, serves=True) is not None


def test_allowed_names_are_accepted() -> None:
    signer = pair_of(
        limited(NameConstraints([DNSName("svc"), *map(DNSName, MEMBER.dns_names)], None))
    )
    made = issuing.issue(OWNER, MEMBER, signer, time.time())
    assert rejection(made, signer.certificate, serves=True) is None


def test_refused_certificate_in_a_secret_is_reported() -> None:
    now, signer = time.time(), pair_of(ROOT)
    uri = MEMBER.identity(OWNER).uri()
    made = pair_of(
        issue(
            issuer=ROOT,
            hosts=MEMBER.dns_names,
            uris=(uri,),
            usages=SERVER_ONLY,
            end=NOW + 900 * DAY,
        )
    )
    secret = documents.leaf_secret(OWNER, MEMBER, made, (signer.certificate,))
    data = {name: b64decode(text) for name, text in secret["data"].items()}
    found = checks.check_leaf("demo-1-1-tls", data, OWNER, MEMBER, (signer.certificate,), now)
    assert isinstance(found, Problem)
    assert found.reason is Reason.REFUSED
    assert "members refuse tls.crt: unsuitable certificate purpose" in found.message


def test_refused_certificate_is_never_written() -> None:
    """A broker may have names that the user's authority may not certify, although the members' are allowed."""
    signer = pair_of(
        limited(NameConstraints([DNSName("svc"), *map(DNSName, MEMBER.dns_names)], None))
    )
    secret = documents.authority_secret(OWNER, 1, signer, signing=True, given_by="corporate")
    found, api = Found(Objects({1: secret}, {}, None)), InMemoryKubeApi({})
    broker = holders.broker("broker-7", 7, ("kafka.example.com",))
    bundle = (signer.certificate,)

    async def write(step: WriteLeaf) -> None:
        await store.write(cast("KubeApi", api), OWNER, found, step, time.time())

    with pytest.raises(ValueError, match="members would refuse it: permitted subtree violation"):
        asyncio.run(write(WriteLeaf(broker, 1, bundle, "", "")))
    assert api.writes == []
    asyncio.run(write(WriteLeaf(ADMIN, 1, bundle, "", "")))
    assert len(api.writes) == 1
