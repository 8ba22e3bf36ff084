"""`spec.tls.caSecret` and `spec.tls.trustedCAs` in the real reconcile: used, replaced, spoiled, lost; nobody is ever mistrusted."""

from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256

from quorum_operator.certificates import documents
from quorum_operator.certificates.lifetimes import DAY_S
from quorum_operator.kube import paths
from support.kept_objects import SPACE, running_quorum
from support.made_certificates import Issued, authority, issue, key_pem, pem
from support.secured_quorum import Scene, bundle_in, leaf_in, leaf_path, secret_path

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


def put(scene: Scene, path: str, data: Data) -> None:
    meta = {"name": path.rpartition("/")[2], "namespace": SPACE, "uid": "of-a-user", "labels": {}}
    scene.api.objects[path] = {"metadata": {**meta, "resourceVersion": "1"}, "data": data}


def scene_with(made: Issued | None, **tls: Any) -> Scene:
    scene = Scene(running_quorum(3, tls=True))
    asked = {"caSecret": {"name": "corporate"}} if made is not None else {}
    scene.api.change_spec(tls={"mode": "Managed", **asked, **tls})
    if made is not None:
        put(scene, GIVEN, data_of(made))
    return scene


def signers(scene: Scene) -> set[str]:
    return {scene.nodes.loaded[each][0].issuer for each in MEMBERS}


def trusted(scene: Scene) -> set[str]:
    """By all members: subjects."""
    each, *others = ({one.subject for one in scene.nodes.loaded[n][1]} for n in MEMBERS)
    assert all(other == each for other in others)
    return each


def blocked(scene: Scene) -> tuple[str, str]:
    found = scene.api.condition("TlsBlocked")
    return found["reason"], found["message"]


def warnings(scene: Scene) -> list[str]:
    return [each["reason"] for each in scene.api.events if each["type"] == "Warning"]


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


@pytest.mark.parametrize("kind", in_part(KINDS, "signed by another one"))
def test_an_authority_of_the_users_own_signs(kind: str) -> None:
    scene = scene_with(KINDS[kind]())
    scene.settle()
    assert signers(scene) == trusted(scene) == {"CN=Corporate CA"}
    assert blocked(scene)[0] == "NothingBlocked"
    assert scene.api.status["tls"]["authority"] == 1


def test_another_authority_in_the_same_secret_takes_over_once_all_trust_it() -> None:
    scene = scene_with(corporate())
    scene.settle()
    put(scene, GIVEN, data_of(corporate("Corporate CA 2")))
    scene.nodes.stuck = {3}
    scene.looks(10)
    assert signers(scene) == {"CN=Corporate CA"}, "it signs nothing before member 3 trusts it"
    assert scene.api.condition("TrustPending")["reason"] == "WaitingForMembers"
    scene.nodes.stuck.clear()
    scene.settle()
    assert signers(scene) == trusted(scene) == {"CN=Corporate CA 2"}


@pytest.mark.long
def test_who_puts_the_former_authority_back_has_it_again() -> None:
    first, second = corporate(), corporate("Second")
    scene = scene_with(first)
    scene.settle()
    put(scene, GIVEN, data_of(second))
    scene.nodes.stuck = {3}
    scene.looks(5)
    scene.nodes.stuck.clear()
    put(scene, GIVEN, data_of(first))
    scene.settle()
    assert signers(scene) == trusted(scene) == {"CN=Corporate CA"}, "the second never signs"
    put(scene, GIVEN, data_of(second))
    scene.settle()
    put(scene, GIVEN, data_of(first))
    scene.settle()
    assert signers(scene) == trusted(scene) == {"CN=Corporate CA"}


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
    """By which a bundle is ordered: a process that finds the earlier one first says that its certificate is of that one."""
    return made.certificate.fingerprint(SHA256()).hex()


@pytest.mark.long
def test_an_authority_that_is_renewed_with_its_key_needs_no_new_certificates() -> None:
    first = corporate()
    renewed = next(each for each in renewals(first) if fingerprint(each) > fingerprint(first))
    scene = scene_with(first)
    scene.settle()
    before = {each: leaf_in(scene.api.objects[leaf_path(each)]) for each in MEMBERS}
    put(scene, GIVEN, data_of(renewed))
    scene.settle()
    assert {e: leaf_in(scene.api.objects[leaf_path(e)]) for e in MEMBERS} == before
    (only,) = scene.nodes.loaded[1][1]
    assert only.validity.not_after > NOW.timestamp() + 2000 * DAY_S


@pytest.mark.long
def test_from_the_operators_authority_to_a_given_one_and_back() -> None:
    scene = scene_with(None)
    scene.settle()
    put(scene, GIVEN, data_of(corporate()))
    scene.api.change_spec(tls={"mode": "Managed", "caSecret": {"name": "corporate"}})
    scene.settle()
    assert signers(scene) == trusted(scene) == {"CN=Corporate CA"}
    scene.api.change_spec(tls={"mode": "Managed"})
    scene.settle()
    assert {each.partition(",")[0] for each in signers(scene)} == {"CN=quorum CA 3"}
    assert len(trusted(scene)) == 1


FOREIGN = corporate("Foreign")
WRONG: dict[str, tuple[Callable[[], Data | None], str, str]] = {
    "gone": (lambda: None, "Missing", "is not there: spec.tls.caSecret names it"),
    "half-written": (
        lambda: {**data_of(corporate("Next")), "tls.key": ""},
        "HalfWritten",
        "tls.key is missing",
    ),
    "cut off": (
        lambda: {"tls.crt": data_of(corporate("Next"))["tls.crt"][:200], "tls.key": "eA=="},
        "HalfWritten",
        "is cut off",
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
        "set the clocks right",
    ),
    "one name, two keys": (lambda: data_of(corporate()), "SameName", "Give it another subject"),
    "a short key": (
        lambda: {
            **data_of(corporate("Next")),
            "tls.key": encoded(key=key_pem(rsa.generate_private_key(65537, 1024)))["tls.key"],
        },
        "HalfWritten",
        "RSA with 1024 bits",
    ),
}


@pytest.mark.parametrize("wrong", in_part(WRONG, "another key"))
def test_what_can_not_be_used_is_told_once_and_nothing_is_lost(wrong: str) -> None:
    made, reason, message = WRONG[wrong]
    scene = scene_with(corporate())
    scene.settle()
    before = dict(scene.nodes.loaded)
    data = made()
    if data is None:
        del scene.api.objects[GIVEN]
    else:
        put(scene, GIVEN, data)
    scene.looks(6)
    assert scene.api.condition("TlsBlocked")["status"] == "True"
    assert blocked(scene)[0] == reason
    assert message in blocked(scene)[1]
    assert "PRIVATE" not in blocked(scene)[1]
    assert warnings(scene).count(f"Tls{reason}") == 1
    assert scene.nodes.loaded == before
    del scene.api.objects[leaf_path(2)]
    scene.looks(6)
    assert leaf_in(scene.api.objects[leaf_path(2)]).issuer == "CN=Corporate CA", "it still signs"
    put(scene, GIVEN, data_of(corporate("Good")))
    scene.settle()
    assert signers(scene) == trusted(scene) == {"CN=Good"}
    assert "TlsUnblocked" in [each["reason"] for each in scene.api.events]


def test_a_new_quorum_waits_for_the_secret_that_it_names_and_makes_no_authority_of_its_own() -> (
    None
):
    scene = scene_with(corporate())
    del scene.api.objects[GIVEN]
    scene.looks(4)
    ready = scene.api.condition("TlsReady")
    assert (ready["status"], ready["reason"]) == ("False", "Issuing")
    assert "Secret space/corporate is not there" in ready["message"]
    assert not [each for each in scene.api.created("secrets") if "-ca-" in each]
    put(scene, GIVEN, data_of(corporate()))
    scene.settle()
    assert signers(scene) == {"CN=Corporate CA"}


@pytest.mark.long
def test_the_copy_of_a_given_authority_is_made_again() -> None:
    scene = scene_with(corporate())
    scene.settle()
    before = {each: leaf_in(scene.api.objects[leaf_path(each)]) for each in MEMBERS}
    del scene.api.objects[secret_path("demo-ca-1")]
    scene.settle()
    assert {e: leaf_in(scene.api.objects[leaf_path(e)]) for e in MEMBERS} == before


@pytest.mark.long
def test_an_authority_that_ends_soon_is_told_and_not_replaced_by_another_one() -> None:
    scene = scene_with(corporate(days=100))
    scene.settle()
    scene.nodes.now += 85 * DAY_S
    scene.looks(30)
    assert blocked(scene)[0] == "EndsSoon"
    assert "Put its successor" in blocked(scene)[1]
    assert trusted(scene) == {"CN=Corporate CA"}


@pytest.mark.long
def test_after_a_given_authority_has_ended_the_next_one_waits_minutes_and_not_days() -> None:
    scene = scene_with(corporate(days=100))
    scene.settle()
    scene.nodes.now += 101 * DAY_S
    scene.nodes.report = _silent
    scene.looks(3)
    assert blocked(scene)[0] == "Expired"
    real, now_s = scene.api._meta, scene.nodes.now
    made_at = {"creationTimestamp": datetime.fromtimestamp(now_s, UTC).isoformat()}
    scene.api._meta = lambda name: {**real(name), **made_at}
    put(scene, GIVEN, data_of(authority("Fresh", start=NOW, end=NOW + timedelta(days=900))))
    scene.looks(6)
    assert "waits until demo-1-1 trusts it" in scene.api.condition("TrustPending")["message"]
    assert "CN=Fresh" in {each.subject for each in bundle_in(scene.api.objects[leaf_path(1)])}
    scene.nodes.now += 700
    scene.looks(8)
    assert leaf_in(scene.api.objects[leaf_path(1)]).issuer == "CN=Fresh"


async def _silent(_ip: str, _node_id: int) -> None:
    return None


# ---- Others to trust

EXTRA = paths.namespaced("configmaps", SPACE, "partners")
NAMED = {"trustedCAs": [{"configMap": {"name": "partners"}}, {"secret": {"name": "tools"}}]}
TOOLS = secret_path("tools")


def put_map(scene: Scene, text: str) -> None:
    put(scene, EXTRA, {"ca.crt": text})


def with_extras() -> Scene:
    scene = scene_with(None, **NAMED)
    put_map(
        scene, pem(corporate("Partner 1").certificate, corporate("Partner 2").certificate).decode()
    )
    put(scene, TOOLS, encoded(bundle=pem(corporate("Tools").certificate)))
    scene.settle()
    return scene


OWN = "CN=quorum CA 1,O=demo.space"
ALL = {OWN, "CN=Partner 1", "CN=Partner 2", "CN=Tools"}


def test_further_authorities_are_trusted_by_all_and_leave_with_the_spec() -> None:
    scene = with_extras()
    assert trusted(scene) == ALL
    map_ = scene.api.objects[paths.namespaced("configmaps", SPACE, "demo-trust")]
    assert map_["data"]["ca.crt"].count("BEGIN") == 4
    assert {
        each.subject for each in bundle_in(scene.api.objects[secret_path("demo-admin-tls")])
    } == ALL
    before = {each: scene.nodes.loaded[each][0] for each in MEMBERS}
    scene.api.change_spec(tls={"mode": "Managed"})
    scene.settle()
    assert trusted(scene) == {OWN}
    assert {each: scene.nodes.loaded[each][0] for each in MEMBERS} == before, "no pair is replaced"


@pytest.mark.long
def test_one_that_is_taken_out_is_trusted_no_more_whoever_is_silent() -> None:
    """Else a member that does not answer would keep it trusted by all others."""
    scene = with_extras()
    scene.nodes.stuck = {3}
    report = scene.nodes.report

    async def but_three(ip: str, node_id: int) -> Any:
        return None if node_id == 3 else await report(ip, node_id)

    scene.nodes.report = but_three
    put_map(scene, pem(corporate("Partner 3").certificate).decode())
    scene.looks(8)
    shown = {each.subject for each in bundle_in(scene.api.objects[leaf_path(1)])}
    assert shown == {OWN, "CN=Partner 3", "CN=Tools"}


@pytest.mark.parametrize("how", in_part(["gone", "garbage", "empty", "without the key"], "gone"))
def test_what_can_not_be_read_takes_no_trust_away(how: str) -> None:
    scene = with_extras()
    match how:
        case "gone":
            del scene.api.objects[EXTRA]
        case "garbage":
            put_map(scene, "-----BEGIN CERTIFICATE-----\nxx")
        case "empty":
            put_map(scene, "\n")
        case _:
            put(scene, EXTRA, {"other": "x"})
    scene.looks(6)
    assert trusted(scene) == ALL
    assert blocked(scene)[0] in ("TrustedMissing", "TrustedUnreadable")
    assert "ConfigMap space/partners" in blocked(scene)[1]
    put_map(scene, pem(corporate("Partner 3").certificate).decode())
    scene.settle()
    assert trusted(scene) == {OWN, "CN=Partner 3", "CN=Tools"}


@pytest.mark.long
def test_of_a_bundle_what_is_expired_or_no_authority_is_left_out() -> None:
    scene = with_extras()
    leaf = issue("leaf", start=NOW - timedelta(days=1), end=NOW + timedelta(days=9))
    bundle = pem(
        corporate("Old", days=-1).certificate, leaf.certificate, corporate("Ok").certificate
    )
    put_map(scene, bundle.decode())
    scene.looks(6)
    assert trusted(scene) == {OWN, "CN=Ok", "CN=Tools"}
    told = blocked(scene)[1]
    assert "'CN=Old', which has expired at" in told
    assert "'CN=leaf', which is the certificate of no authority" in told


@pytest.mark.long
def test_an_authority_is_replaced_with_others_trusted_beside_it() -> None:
    scene = with_extras()
    scene.ask_for(2)
    scene.settle()
    assert trusted(scene) == {*(ALL - {OWN}), "CN=quorum CA 2,O=demo.space"}
    assert [scene.authority_of(each) for each in MEMBERS] == [2, 2, 2]


@pytest.mark.long
def test_one_that_others_sign_with_makes_nobody_a_member() -> None:
    """A holder's Secret with a certificate of a trusted authority that is not the quorum's own is written again."""
    scene = with_extras()
    partner = corporate("Partner 9")
    put_map(scene, pem(partner.certificate).decode())
    scene.settle()
    uri = f"urn:metadataquorum:{SPACE}:demo:member:1"
    names = tuple(sorted(leaf_in(scene.api.objects[leaf_path(1)]).dns_names))
    forged = issue(
        "demo-1-1",
        issuer=partner,
        start=NOW - timedelta(days=1),
        end=NOW + timedelta(days=9),
        hosts=names,
        uris=(uri,),
    )
    secret = scene.api.objects[leaf_path(1)]
    secret["data"] |= data_of(forged)
    scene.nodes.stuck = {1}
    scene.looks(4)
    assert leaf_in(scene.api.objects[leaf_path(1)]).issuer == OWN


@pytest.mark.long
def test_a_given_authority_is_known_by_the_secrets_when_an_older_copy_was_deleted() -> None:
    scene = scene_with(corporate())
    scene.settle()
    put(scene, GIVEN, data_of(corporate("Next")))
    scene.settle()
    del scene.api.objects[secret_path("demo-ca-1")]
    scene.settle()
    assert scene.api.status["tls"]["authority"] == 2
    notes = scene.api.objects[leaf_path(1)]["metadata"]["annotations"]
    assert notes[documents.ANNOTATION_GENERATION] == "2"
