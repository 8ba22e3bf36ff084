"""`spec.tls.caSecret` and `spec.tls.trustedCAs` in the real reconcile: used, replaced, damaged, lost; no member loses trust."""

from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509 import DNSName, NameConstraints

from quorum_operator.certificates import documents
from quorum_operator.certificates.lifetimes import DAY_S
from quorum_operator.kube import paths
from support.generated_certificates import Issued, authority, issue, key_pem, pem
from support.in_memory_kube_api import SPACE, running_quorum
from support.secured_quorum import Env, bundle_in, leaf_in, leaf_path, secret_path

MEMBERS = (1, 2, 3)
GIVEN = secret_path("corporate")
NOW = datetime.now(UTC)
Data = dict[str, str]


def corporate(name: str = "Corporate CA", days: int = 1000, **wishes: Any) -> Issued:
    return authority(name, start=NOW - timedelta(days=2), end=NOW + timedelta(days=days), **wishes)


def encoded(**data: bytes) -> Data:
    names = {"certificate": "tls.crt", "key": "tls.key", "bundle": "ca.crt"}
    return {names[each]: b64encode(text).decode() for each, text in data.items()}


def data_of(made: Issued) -> Data:
    return encoded(certificate=pem(made.certificate), key=key_pem(made.key))


def put(env: Env, path: str, data: Data) -> None:
    meta = {"name": path.rpartition("/")[2], "namespace": SPACE, "uid": "of-a-user", "labels": {}}
    env.api.objects[path] = {"metadata": {**meta, "resourceVersion": "1"}, "data": data}


def env_with(made: Issued | None, **tls: Any) -> Env:
    env = Env(running_quorum(3, tls=True))
    requested = {"caSecret": {"name": "corporate"}} if made is not None else {}
    env.api.change_spec(tls={"mode": "Managed", **requested, **tls})
    if made is not None:
        put(env, GIVEN, data_of(made))
    return env


def signers(env: Env) -> set[str]:
    return {env.nodes.loaded[each][0].issuer for each in MEMBERS}


def trusted(env: Env) -> set[str]:
    """By all members: subjects."""
    each, *others = ({one.subject for one in env.nodes.loaded[n][1]} for n in MEMBERS)
    assert all(other == each for other in others)
    return each


def blocked(env: Env) -> tuple[str, str]:
    found = env.api.condition("TlsBlocked")
    return found["reason"], found["message"]


def warnings(env: Env) -> list[str]:
    return [each["reason"] for each in env.api.events if each["type"] == "Warning"]


def in_part(cases: Iterable[str], *short: str) -> list[Any]:
    """The others are in the long set."""
    marks = pytest.mark.long
    return [each if each in short else pytest.param(each, marks=marks) for each in cases]


KINDS: dict[str, Callable[[], Issued]] = {
    "elliptic curve": corporate,
    "RSA": lambda: issue(
        "Corporate CA",
        key=rsa.generate_private_key(65537, 2048),
        authority=True,
        start=NOW - timedelta(days=2),
        end=NOW + timedelta(days=1000),
        hosts=(),
        usages=None,
    ),
    "signed by another one": lambda: corporate(issuer=corporate("Root")),
}


@pytest.mark.requirement("OP-11")
@pytest.mark.parametrize("kind", in_part(KINDS, "signed by another one"))
def test_user_provided_authority_signs(kind: str) -> None:
    env = env_with(KINDS[kind]())
    env.settle()
    assert signers(env) == trusted(env) == {"CN=Corporate CA"}
    assert blocked(env)[0] == "NothingBlocked"
    assert env.api.status["tls"]["authority"] == 1


@pytest.mark.requirement("OP-11")
def test_another_authority_in_the_same_secret_signs_after_all_members_trust_it() -> None:
    env = env_with(corporate())
    env.settle()
    put(env, GIVEN, data_of(corporate("Corporate CA 2")))
    env.nodes.stuck = {3}
    env.looks(10)
    assert signers(env) == {"CN=Corporate CA"}, "it signs nothing before member 3 trusts it"
    assert env.api.condition("TrustPending")["reason"] == "WaitingForMembers"
    env.nodes.stuck.clear()
    env.settle()
    assert signers(env) == trusted(env) == {"CN=Corporate CA 2"}


@pytest.mark.requirement("OP-11")
@pytest.mark.long
def test_restored_former_authority_is_used_again() -> None:
    first, second = corporate(), corporate("Second")
    env = env_with(first)
    env.settle()
    put(env, GIVEN, data_of(second))
    env.nodes.stuck = {3}
    env.looks(5)
    env.nodes.stuck.clear()
    put(env, GIVEN, data_of(first))
    env.settle()
    assert signers(env) == trusted(env) == {"CN=Corporate CA"}, "the second never signs"
    put(env, GIVEN, data_of(second))
    env.settle()
    put(env, GIVEN, data_of(first))
    env.settle()
    assert signers(env) == trusted(env) == {"CN=Corporate CA"}


def renewals(first: Issued) -> Iterator[Issued]:
    """Of one key and one name."""
    while True:
        yield issue(
            "Corporate CA",
            key=first.key,
            authority=True,
            start=NOW - timedelta(days=1),
            end=NOW + timedelta(days=3000),
            hosts=(),
            usages=None,
        )


def fingerprint(made: Issued) -> str:
    """The sort key of a bundle: a process that finds the earlier one first reports its certificate as issued by that one."""
    return made.certificate.fingerprint(SHA256()).hex()


@pytest.mark.requirement("OP-11")
@pytest.mark.long
def test_authority_renewed_with_its_key_needs_no_new_certificates() -> None:
    first = corporate()
    renewed = next(each for each in renewals(first) if fingerprint(each) > fingerprint(first))
    env = env_with(first)
    env.settle()
    before = {each: leaf_in(env.api.objects[leaf_path(each)]) for each in MEMBERS}
    put(env, GIVEN, data_of(renewed))
    env.settle()
    assert {e: leaf_in(env.api.objects[leaf_path(e)]) for e in MEMBERS} == before
    (only,) = env.nodes.loaded[1][1]
    assert only.validity.not_after > NOW.timestamp() + 2000 * DAY_S


@pytest.mark.requirement("OP-11")
@pytest.mark.long
def test_operator_authority_changes_to_a_user_provided_one_and_back() -> None:
    env = env_with(None)
    env.settle()
    put(env, GIVEN, data_of(corporate()))
    env.api.change_spec(tls={"mode": "Managed", "caSecret": {"name": "corporate"}})
    env.settle()
    assert signers(env) == trusted(env) == {"CN=Corporate CA"}
    env.api.change_spec(tls={"mode": "Managed"})
    env.settle()
    assert {each.partition(",")[0] for each in signers(env)} == {"CN=quorum CA 3"}
    assert len(trusted(env)) == 1


FOREIGN = corporate("Foreign")
ELSEWHERE = NameConstraints([DNSName("elsewhere.example.com")], None).public_bytes()
WRONG: dict[str, tuple[Callable[[], Data | None], str, str]] = {
    "gone": (lambda: None, "Missing", "does not exist: spec.tls.caSecret names it"),
    "half-written": (
        lambda: {**data_of(corporate("Next")), "tls.key": ""},
        "HalfWritten",
        "tls.key is missing",
    ),
    "cut off": (
        lambda: {"tls.crt": data_of(corporate("Next"))["tls.crt"][:200], "tls.key": "eA=="},
        "HalfWritten",
        "is truncated",
    ),
    "another key": (
        lambda: {**data_of(corporate("Next")), "tls.key": data_of(FOREIGN)["tls.key"]},
        "KeyMismatch",
        "tls.key is not the key of tls.crt",
    ),
    "no authority": (
        lambda: data_of(issue("leaf", start=NOW - timedelta(days=1), end=NOW + timedelta(days=9))),
        "NotAnAuthority",
        "which may not sign certificates",
    ),
    "expired": (
        lambda: data_of(corporate("Next", days=-1)),
        "Expired",
        "by the API server's clock it is",
    ),
    "not valid yet": (
        lambda: data_of(
            authority("Next", start=NOW + timedelta(days=1), end=NOW + timedelta(days=99))
        ),
        "NotYetValid",
        "correct the clocks",
    ),
    "one name, two keys": (lambda: data_of(corporate()), "SameName", "Give it a different subject"),
    "for other names": (
        lambda: data_of(
            issue(
                "Next",
                authority=True,
                start=NOW - timedelta(days=1),
                end=NOW + timedelta(days=999),
                hosts=(),
                usages=None,
                further={NameConstraints.oid.dotted_string: ELSEWHERE},
            )
        ),
        "CannotCertify",
        "members refuse the certificates that it signs: permitted subtree violation",
    ),
    "a short key": (
        lambda: {
            **data_of(corporate("Next")),
            "tls.key": encoded(key=key_pem(rsa.generate_private_key(65537, 1024)))["tls.key"],
        },
        "HalfWritten",
        "an RSA key of 1024 bits",
    ),
}


@pytest.mark.requirement("OP-11")
@pytest.mark.parametrize("wrong", in_part(WRONG, "another key", "for other names"))
def test_unusable_authority_is_reported_once_and_nothing_is_lost(wrong: str) -> None:
    made, reason, message = WRONG[wrong]
    env = env_with(corporate())
    env.settle()
    before = dict(env.nodes.loaded)
    data = made()
    if data is None:
        del env.api.objects[GIVEN]
    else:
        put(env, GIVEN, data)
    env.looks(6)
    assert env.api.condition("TlsBlocked")["status"] == "True"
    assert blocked(env)[0] == reason
    assert message in blocked(env)[1]
    assert "PRIVATE" not in blocked(env)[1]
    assert warnings(env).count(f"Tls{reason}") == 1
    assert env.nodes.loaded == before
    del env.api.objects[leaf_path(2)]
    env.looks(6)
    assert leaf_in(env.api.objects[leaf_path(2)]).issuer == "CN=Corporate CA", "it still signs"
    put(env, GIVEN, data_of(corporate("Good")))
    env.settle()
    assert signers(env) == trusted(env) == {"CN=Good"}
    assert "TlsUnblocked" in [each["reason"] for each in env.api.events]


@pytest.mark.requirement("OP-11")
def test_new_quorum_waits_for_its_named_secret_and_creates_no_authority() -> None:
    env = env_with(corporate())
    del env.api.objects[GIVEN]
    env.looks(4)
    ready = env.api.condition("TlsReady")
    assert (ready["status"], ready["reason"]) == ("False", "Issuing")
    assert "Secret space/corporate does not exist" in ready["message"]
    assert not [each for each in env.api.created("secrets") if "-ca-" in each]
    put(env, GIVEN, data_of(corporate()))
    env.settle()
    assert signers(env) == {"CN=Corporate CA"}


@pytest.mark.long
def test_copy_of_a_user_provided_authority_is_recreated() -> None:
    env = env_with(corporate())
    env.settle()
    before = {each: leaf_in(env.api.objects[leaf_path(each)]) for each in MEMBERS}
    del env.api.objects[secret_path("demo-ca-1")]
    env.settle()
    assert {e: leaf_in(env.api.objects[leaf_path(e)]) for e in MEMBERS} == before


@pytest.mark.requirement("OP-11")
@pytest.mark.long
def test_expiring_user_provided_authority_is_reported_and_not_replaced() -> None:
    env = env_with(corporate(days=100))
    env.settle()
    env.nodes.now += 85 * DAY_S
    env.looks(30)
    assert blocked(env)[0] == "EndsSoon"
    assert "Put its successor" in blocked(env)[1]
    assert trusted(env) == {"CN=Corporate CA"}


@pytest.mark.long
def test_expired_user_provided_authority_is_succeeded_within_minutes() -> None:
    env = env_with(corporate(days=100))
    env.settle()
    env.nodes.now += 101 * DAY_S
    env.nodes.report = _silent
    env.looks(3)
    assert blocked(env)[0] == "Expired"
    real, now_s = env.api._meta, env.nodes.now
    made_at = {"creationTimestamp": datetime.fromtimestamp(now_s, UTC).isoformat()}
    env.api._meta = lambda name: {**real(name), **made_at}
    put(env, GIVEN, data_of(authority("Fresh", start=NOW, end=NOW + timedelta(days=900))))
    env.looks(6)
    assert "waits until demo-1-1 trusts it" in env.api.condition("TrustPending")["message"]
    assert "CN=Fresh" in {each.subject for each in bundle_in(env.api.objects[leaf_path(1)])}
    env.nodes.now += 700
    env.looks(8)
    assert leaf_in(env.api.objects[leaf_path(1)]).issuer == "CN=Fresh"


async def _silent(_ip: str, _node_id: int) -> None:
    return None


# ---- Others to trust

EXTRA = paths.namespaced("configmaps", SPACE, "partners")
NAMED = {"trustedCAs": [{"configMap": {"name": "partners"}}, {"secret": {"name": "tools"}}]}
TOOLS = secret_path("tools")


def put_map(env: Env, text: str) -> None:
    put(env, EXTRA, {"ca.crt": text})


def with_extras() -> Env:
    env = env_with(None, **NAMED)
    put_map(
        env, pem(corporate("Partner 1").certificate, corporate("Partner 2").certificate).decode()
    )
    put(env, TOOLS, encoded(bundle=pem(corporate("Tools").certificate)))
    env.settle()
    return env


OWN = "CN=quorum CA 1,O=demo.space"
ALL = {OWN, "CN=Partner 1", "CN=Partner 2", "CN=Tools"}


@pytest.mark.requirement("OP-11")
def test_additional_authorities_are_trusted_by_all_and_removed_with_the_spec() -> None:
    env = with_extras()
    assert trusted(env) == ALL
    map_ = env.api.objects[paths.namespaced("configmaps", SPACE, "demo-trust")]
    assert map_["data"]["ca.crt"].count("BEGIN") == 4
    assert {
        each.subject for each in bundle_in(env.api.objects[secret_path("demo-admin-tls")])
    } == ALL
    before = {each: env.nodes.loaded[each][0] for each in MEMBERS}
    env.api.change_spec(tls={"mode": "Managed"})
    env.settle()
    assert trusted(env) == {OWN}
    assert {each: env.nodes.loaded[each][0] for each in MEMBERS} == before, "no pair is replaced"


@pytest.mark.requirement("OP-11")
@pytest.mark.long
def test_removed_authority_is_distrusted_although_members_are_silent() -> None:
    """Else a member that does not answer would keep it trusted by all others."""
    env = with_extras()
    env.nodes.stuck = {3}
    report = env.nodes.report

    async def but_three(ip: str, node_id: int) -> Any:
        return None if node_id == 3 else await report(ip, node_id)

    env.nodes.report = but_three
    put_map(env, pem(corporate("Partner 3").certificate).decode())
    env.looks(8)
    shown = {each.subject for each in bundle_in(env.api.objects[leaf_path(1)])}
    assert shown == {OWN, "CN=Partner 3", "CN=Tools"}


@pytest.mark.requirement("OP-11")
@pytest.mark.parametrize("how", in_part(["gone", "garbage", "empty", "without the key"], "gone"))
def test_unreadable_bundle_removes_no_trust(how: str) -> None:
    env = with_extras()
    match how:
        case "gone":
            del env.api.objects[EXTRA]
        case "garbage":
            put_map(env, "-----BEGIN CERTIFICATE-----\nxx")
        case "empty":
            put_map(env, "\n")
        case _:
            put(env, EXTRA, {"other": "x"})
    env.looks(6)
    assert trusted(env) == ALL
    assert blocked(env)[0] in ("TrustedMissing", "TrustedUnreadable")
    assert "ConfigMap space/partners" in blocked(env)[1]
    put_map(env, pem(corporate("Partner 3").certificate).decode())
    env.settle()
    assert trusted(env) == {OWN, "CN=Partner 3", "CN=Tools"}


@pytest.mark.requirement("OP-11")
@pytest.mark.long
def test_expired_certificates_and_non_authorities_of_a_bundle_are_omitted() -> None:
    env = with_extras()
    leaf = issue("leaf", start=NOW - timedelta(days=1), end=NOW + timedelta(days=9))
    bundle = pem(
        corporate("Old", days=-1).certificate, leaf.certificate, corporate("Ok").certificate
    )
    put_map(env, bundle.decode())
    env.looks(6)
    assert trusted(env) == {OWN, "CN=Ok", "CN=Tools"}
    reported = blocked(env)[1]
    assert "'CN=Old', which has expired at" in reported
    assert "'CN=leaf', which is not a CA certificate" in reported


@pytest.mark.requirement("OP-11")
@pytest.mark.long
def test_authority_is_replaced_with_additional_authorities_trusted() -> None:
    env = with_extras()
    env.ask_for(2)
    env.settle()
    assert trusted(env) == {*(ALL - {OWN}), "CN=quorum CA 2,O=demo.space"}
    assert [env.authority_of(each) for each in MEMBERS] == [2, 2, 2]


@pytest.mark.requirement("OP-11")
@pytest.mark.long
def test_trusted_foreign_authority_certifies_no_member() -> None:
    """A holder's Secret with a certificate of a trusted authority that is not the quorum's own is written again."""
    env = with_extras()
    partner = corporate("Partner 9")
    put_map(env, pem(partner.certificate).decode())
    env.settle()
    uri = f"urn:metadataquorum:{SPACE}:demo:member:1"
    names = tuple(sorted(leaf_in(env.api.objects[leaf_path(1)]).dns_names))
    forged = issue(
        "demo-1-1",
        issuer=partner,
        start=NOW - timedelta(days=1),
        end=NOW + timedelta(days=9),
        hosts=names,
        uris=(uri,),
    )
    secret = env.api.objects[leaf_path(1)]
    secret["data"] |= data_of(forged)
    env.nodes.stuck = {1}
    env.looks(4)
    assert leaf_in(env.api.objects[leaf_path(1)]).issuer == OWN


@pytest.mark.long
def test_user_provided_authority_is_recognized_by_the_secrets_after_its_older_copy_was_deleted() -> (
    None
):
    env = env_with(corporate())
    env.settle()
    put(env, GIVEN, data_of(corporate("Next")))
    env.settle()
    del env.api.objects[secret_path("demo-ca-1")]
    env.settle()
    assert env.api.status["tls"]["authority"] == 2
    notes = env.api.objects[leaf_path(1)]["metadata"]["annotations"]
    assert notes[documents.ANNOTATION_GENERATION] == "2"
