"""Reads the objects with certificates, and executes one step of the planner as one write.

A write is a creation, or a patch conditional on the version that was read, so of two operators only one succeeds.
Secrets are read by name and never listed.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from quorum_node.security.certificate_identity import Role
from quorum_operator.certificates import checks, documents, issuing, pem, steps
from quorum_operator.certificates.documents import Object
from quorum_operator.certificates.handshake import rejection
from quorum_operator.certificates.holders import Holder
from quorum_operator.certificates.issued import IssuedObjects, request_name
from quorum_operator.certificates.issued import pair_of as issued_pair
from quorum_operator.certificates.named import NamedObjects, pair_of
from quorum_operator.certificates.objects import Objects
from quorum_operator.certificates.pem import Read
from quorum_operator.desired.names import Owner
from quorum_operator.kube import paths
from quorum_operator.kube.client import KubeApi
from quorum_operator.kube.errors import ApiError, Conflict, Forbidden, Invalid, NotFound
from quorum_operator.kube.finding import Reads, is_owned
from quorum_operator.kube.refusal_words import SEALED, reason_in
from quorum_operator.refused import is_outage
from quorum_operator.tls_crd import RevokedList, TlsSpec, TrustedCa

MOST_GENERATIONS = 64
"""Number of generations to look for beyond those in bundles and annotations."""


@dataclass(frozen=True, slots=True)
class Found:
    """The certificate objects of a quorum. `taken`: generations whose Secret name is used by another owner. `named`:
    the user's objects. `ownerless`: objects with the quorum's names that have no owner.
    """

    objects: Objects
    taken: frozenset[int] = frozenset()
    named: NamedObjects = field(default_factory=NamedObjects)
    ownerless: tuple[Object, ...] = ()


async def read(
    reads: Reads, owner: Owner, holders: tuple[Holder, ...], spec: TlsSpec | None = None
) -> Found:
    """Read all certificate objects. Only objects owned by this resource count. Raises ApiError."""
    space = owner.namespace
    names = [documents.leaf_name(owner, each) for each in holders]
    trust, *secrets = await asyncio.gather(
        reads.get(paths.namespaced("configmaps", space, documents.trust_name(owner))),
        *(reads.get(paths.namespaced("secrets", space, name)) for name in names),
    )
    leaves = {
        each.name: secret
        for each, secret in zip(holders, secrets, strict=True)
        if secret is not None and is_owned(secret, owner)
    }
    own_trust = trust if trust is not None and is_owned(trust, owner) else None
    shown, noted = _generations(owner, holders, leaves, own_trust)
    (authorities, others), named, requested = await asyncio.gather(
        _authorities(reads, owner, shown, noted),
        _named(reads, space, spec),
        _issued(reads, owner, holders, spec),
    )
    there = [each.certificate for each in (requested or {}).values()]
    kinds = (
        ("ConfigMap", (trust,)),
        ("Secret", (*secrets, *others.values())),
        ("Certificate", there),
    )
    ownerless = tuple(
        {**each, "kind": kind}
        for kind, every in kinds
        for each in every
        if each is not None and not each["metadata"].get("ownerReferences")
    )
    objects = Objects(authorities, leaves, own_trust, _own_requests(owner, requested))
    return Found(objects, frozenset(others), named, ownerless)


async def adopt(api: KubeApi, owner: Owner, ownerless: tuple[Object, ...]) -> None:
    """Make the resource the owner of objects that have none. Skips objects that changed meanwhile. Raises ApiError."""
    for each in ownerless:
        meta = each["metadata"]
        same = {key: meta[key] for key in ("uid", "resourceVersion")}
        with contextlib.suppress(Conflict, NotFound):
            await _own(api, owner, each["kind"], meta["name"], same)


async def _own(api: KubeApi, owner: Owner, kind: str, name: str, meta: dict[str, Any]) -> None:
    """Make the resource the only owner of an object, and write `meta`."""
    path = paths.namespaced(paths.plural_of(kind), owner.namespace, name)
    await api.merge(path, {"metadata": {**meta, "ownerReferences": [owner.reference()]}})


async def _issued(
    reads: Reads, owner: Owner, holders: tuple[Holder, ...], spec: TlsSpec | None
) -> dict[str, IssuedObjects] | None:
    """Read cert-manager's Certificates and Secrets."""
    if spec is None or spec.issuer_ref is None:
        return None

    async def read_one(holder: Holder) -> IssuedObjects:
        name = request_name(owner, holder)
        secret = await reads.get(paths.namespaced("secrets", owner.namespace, name))
        try:
            path = paths.namespaced("certificates", owner.namespace, name)
            return IssuedObjects(await reads.get(path), secret)
        except ApiError as error:
            if is_outage(error):
                raise
            return IssuedObjects(None, secret, error.message, denied=isinstance(error, Forbidden))

    found = await asyncio.gather(*map(read_one, holders))
    return {each.name: there for each, there in zip(holders, found, strict=True)}


def _own_requests(
    owner: Owner, found: dict[str, IssuedObjects] | None
) -> dict[str, IssuedObjects] | None:
    """Omit Certificates of other owners. Creating one with the same name is rejected, and the rejection is reported."""
    if found is None:
        return None
    return {
        holder: replace(each, certificate=None)
        if each.certificate is not None and not is_owned(each.certificate, owner)
        else each
        for holder, each in found.items()
    }


async def _named(reads: Reads, space: str, spec: TlsSpec | None) -> NamedObjects:
    """Read the user's objects, which need no owner."""
    if spec is None:
        return NamedObjects()

    async def read_one(kind: str, name: str) -> Object | None:
        found = await reads.get(paths.namespaced(paths.plural_of(kind), space, name))
        return None if found is None else {**found, "kind": kind}

    async def read_all(sources: list[TrustedCa] | list[RevokedList]) -> tuple[Object | None, ...]:
        return tuple(await asyncio.gather(*(read_one(each.kind, each.name) for each in sources)))

    lists = spec.revoked.lists if spec.revoked is not None else None
    trusted, revoked = await asyncio.gather(read_all(spec.trusted_cas or []), read_all(lists or []))
    authority = None
    if spec.ca_secret is not None:
        authority = await read_one("Secret", spec.ca_secret.name)
    return NamedObjects(authority, trusted, revoked)


def _generations(
    owner: Owner, holders: tuple[Holder, ...], leaves: dict[str, Object], trust: Object | None
) -> tuple[set[int], set[int]]:
    """The generations of the certificates in bundles, and those in annotations of holders' Secrets, which users may
    have edited.
    """
    bundles = [documents.read_trust(owner, trust)] if trust is not None else []
    bundles += [
        documents.bundle_of(owner, each, leaves[each.name])
        for each in holders
        if each.name in leaves
    ]
    shown = {
        each.generation
        for bundle in bundles
        for each in bundle
        if documents.is_named_by(owner, each)
    }
    noted = {documents.generation_of(each) for each in leaves.values()}
    return {each for each in shown if each is not None}, {each for each in noted if each}


async def _authorities(
    reads: Reads, owner: Owner, shown: set[int], noted: set[int]
) -> tuple[dict[int, Object], dict[int, Object]]:
    """Read the authorities' Secrets, from the first known generation to the last existing one. Returns this quorum's
    Secrets, and those of other owners, by generation.

    A `noted` generation counts only if its Secret exists: otherwise a wrong number in an annotation would hide all
    authorities, and a new one would be created each time.
    """
    found: dict[int, Object] = {}
    others: dict[int, Object] = {}

    async def read_secret(generation: int) -> bool:
        name = documents.authority_name(owner, generation)
        secret = await reads.get(paths.namespaced("secrets", owner.namespace, name))
        if secret is not None and is_owned(secret, owner):
            found[generation] = secret
        elif secret is not None:
            others[generation] = secret
        return secret is not None

    await asyncio.gather(*(read_secret(each) for each in sorted(noted)))
    named = shown | found.keys() | others.keys()
    first, last = min(named, default=1), max(named, default=0)
    window = set(range(max(first, last - MOST_GENERATIONS), last + 1)) - found.keys()
    await asyncio.gather(*(read_secret(each) for each in sorted(window)))
    following = last + 1
    while following <= last + MOST_GENERATIONS and await read_secret(following):
        following += 1
    return found, others


async def write(api: KubeApi, owner: Owner, found: Found, step: steps.Step, now: float) -> Found:
    """Execute one step and return the objects afterwards. Raises ApiError."""
    objects = found.objects
    match step:
        case steps.CreateAuthority(generation, signing, _, given, requested):
            pair = issuing.new_authority(owner, generation, now)
            if given is not None:
                pair = _given(found.named, given)
            by = given_by(found.named) if given is not None else ""
            body = documents.authority_secret(
                owner, generation, pair, signing=signing, given_by=by, requested=requested
            )
            made = await api.create(paths.namespaced("secrets", owner.namespace), body)
            return _with_authority(found, generation, made)
        case steps.ExtendSignedUntil(generation, version, until):
            note = {documents.ANNOTATION_SIGNED_UNTIL: str(int(until))}
            made = await _annotate(api, owner, generation, version, note)
            return _with_authority(found, generation, made)
        case (
            steps.BeginSigning(generation, version)
            | steps.Retire(generation, version)
            | steps.RemoveRetiredMark(generation, version)
        ):
            made = await _annotate(api, owner, generation, version, _stage_note(step))
            return _with_authority(found, generation, made)
        case steps.ApplyTrust(bundle, version):
            body = documents.trust_config_map(owner, bundle)
            made = await _put_trust(api, body, version, objects.trust)
            return replace(found, objects=replace(objects, trust=made))
        case steps.WriteLeaf(holder, generation, bundle, version, _, extras, revoked):
            pair = _issued_by(owner, holder, _authority(objects, generation), now)
            body = documents.leaf_secret(
                *(owner, holder, pair, bundle),
                extras=extras,
                generation=generation,
                revoked=revoked,
            )
            made = await _put(api, "secrets", body, version)
            return _with_leaf(found, holder, made)
        case steps.WriteBundle(holder, bundle, version, _, extras, revoked):
            body = documents.leaf_secret(
                owner, holder, None, bundle, extras=extras, revoked=revoked
            )
            made = await _put(api, "secrets", body, version)
            return _with_leaf(found, holder, made)
        case steps.RequestCertificate(holder_name, request, version):
            made = await _ask(api, request, version)
            return _with_request(found, holder_name, made)
        case steps.CopyIssuedPair(holder, certificate, bundle, version, _, extras, revoked):
            pair = _taken(objects, holder, certificate)
            body = documents.leaf_secret(
                owner, holder, pair, bundle, extras=extras, revoked=revoked
            )
            made = await _put(api, "secrets", body, version)
            return _with_leaf(found, holder, made)
        case steps.RestoreOwner(kind, name, uid, version):
            await _own(
                api,
                owner,
                kind,
                name,
                {"uid": uid, "resourceVersion": version, "labels": owner.labels},
            )
            return found
        case steps.WaitFor() | steps.Settled():
            return found


def subject_of(owner: Owner, step: steps.Step) -> str:
    """The object that a step writes, as `Kind/name`; empty if it writes none."""
    match step:
        case (
            steps.CreateAuthority(generation)
            | steps.ExtendSignedUntil(generation)
            | steps.BeginSigning(generation)
            | steps.Retire(generation)
            | steps.RemoveRetiredMark(generation)
        ):
            return f"Secret/{documents.authority_name(owner, generation)}"
        case steps.ApplyTrust():
            return f"ConfigMap/{documents.trust_name(owner)}"
        case steps.RestoreOwner(kind, name):
            return f"{kind}/{name}"
        case steps.RequestCertificate(_, request):
            return f"Certificate/{request['metadata']['name']}"
        case steps.WriteLeaf(holder) | steps.WriteBundle(holder) | steps.CopyIssuedPair(holder):
            return f"Secret/{documents.leaf_name(owner, holder)}"
    return ""


def pair_in(secret: Object) -> issuing.Pair | None:
    """The key pair in a holder's Secret; None if unreadable. It is validated elsewhere."""
    data = checks.decoded(secret.get("data"))
    try:
        certificate, *above = pem.read_all(data.get(checks.CERTIFICATE, b""))
        pem.load_key(data.get(checks.KEY, b""))
        return issuing.Pair(certificate, data[checks.KEY].decode(), tuple(above))
    except (pem.Unreadable, ValueError):
        return None


def authority_in(secret: Object) -> issuing.Pair:
    """The key pair of an authority with a valid Secret. Raises pem.Unreadable."""
    data = checks.decoded(secret.get("data"))
    certificate = pem.read(data.get(checks.AUTHORITY_CERTIFICATE, b""))
    return issuing.Pair(certificate, data[checks.AUTHORITY_KEY].decode())


def certificates_in(owner: Owner, holders: tuple[Holder, ...], found: Found) -> tuple[Read, ...]:
    """All authorities in any object, to resolve fingerprints reported by processes."""
    objects = found.objects
    shown = list(documents.read_trust(owner, objects.trust)) if objects.trust is not None else []
    for each in holders:
        if each.name in objects.leaves:
            shown += documents.bundle_of(owner, each, objects.leaves[each.name])
    for secret in objects.authorities.values():
        data = checks.decoded(secret.get("data"))
        try:
            shown.append(pem.read(data.get(checks.AUTHORITY_CERTIFICATE, b"")))
        except pem.Unreadable:
            continue
    return tuple(dict.fromkeys(shown))


def _issued_by(owner: Owner, holder: Holder, authority: issuing.Pair, now: float) -> issuing.Pair:
    """A certificate that members accept. Raises ValueError if they would refuse it: the user's authority may be
    limited to other names or usages.
    """
    pair = issuing.issue(owner, holder, authority, now)
    why = rejection(pair, authority.certificate, serves=holder.role is Role.MEMBER)
    if why is not None:
        raise ValueError(f"members would refuse it: {why}")
    return pair


def _authority(objects: Objects, generation: int) -> issuing.Pair:
    secret = objects.authorities.get(generation)
    if secret is None:
        raise Conflict(409, "Conflict", f"authority {generation} no longer exists")
    return authority_in(secret)


def given_by(found: NamedObjects) -> str:
    """Name of the Secret with the authority that the spec names; empty if there is none."""
    return "" if found.authority is None else str(found.authority["metadata"]["name"])


def _stage_note(
    step: steps.BeginSigning | steps.Retire | steps.RemoveRetiredMark,
) -> dict[str, str | None]:
    """The annotation of an authority's Secret that records a stage; None removes it."""
    match step:
        case steps.BeginSigning():
            return {documents.ANNOTATION_SIGNING: "true"}
        case steps.Retire():
            return {documents.ANNOTATION_RETIRED: "true"}
        case steps.RemoveRetiredMark():
            return {documents.ANNOTATION_RETIRED: None}


def _given(found: NamedObjects, planned: Read) -> issuing.Pair:
    """The key pair in the user's Secret, if it is still the one that was planned."""
    pair = pair_of(found)
    if pair.certificate != planned:
        raise Conflict(409, "Conflict", f"Secret {given_by(found)} now holds a different authority")
    return pair


async def _ask(api: KubeApi, request: Object, version: str) -> Object:
    meta = request["metadata"]
    if not version:
        return await api.create(paths.namespaced("certificates", meta["namespace"]), request)
    path = paths.namespaced("certificates", meta["namespace"], meta["name"])
    body = {"metadata": {"resourceVersion": version}, "spec": request["spec"]}
    return await api.merge(path, body)


def _taken(objects: Objects, holder: Holder, planned: Read) -> issuing.Pair:
    """The issued key pair, if it is still the one that was planned."""
    found = (objects.issued or {}).get(holder.name, IssuedObjects())
    pair = issued_pair(found)
    if pair.certificate != planned:
        raise Conflict(409, "Conflict", f"a new certificate of {holder.name} was issued")
    return pair


def _with_request(found: Found, holder: str, made: Object) -> Found:
    there = dict(found.objects.issued or {})
    there[holder] = replace(there.get(holder, IssuedObjects()), certificate=made)
    return replace(found, objects=replace(found.objects, issued=there))


def _with_authority(found: Found, generation: int, made: Object) -> Found:
    authorities = {**found.objects.authorities, generation: made}
    return replace(found, objects=replace(found.objects, authorities=authorities))


def _with_leaf(found: Found, holder: Holder, made: Object) -> Found:
    leaves = {**found.objects.leaves, holder.name: made}
    return replace(found, objects=replace(found.objects, leaves=leaves))


async def _annotate(
    api: KubeApi, owner: Owner, generation: int, version: str, notes: Mapping[str, str | None]
) -> Object:
    name = documents.authority_name(owner, generation)
    meta: dict[str, Any] = {"resourceVersion": version, "annotations": notes}
    return await api.merge(paths.namespaced("secrets", owner.namespace, name), {"metadata": meta})


async def _put_trust(api: KubeApi, body: Object, version: str, there: Object | None) -> Object:
    """Create the trust, or replace its data. One that another client made immutable is recreated: it holds no state."""
    try:
        return await _put(api, "configmaps", body, version)
    except Invalid as error:
        if there is None or reason_in(error.message) != SEALED:
            raise
        meta = body["metadata"]
        path = paths.namespaced("configmaps", meta["namespace"], meta["name"])
        await api.delete(path, uid=there["metadata"]["uid"])
        return await _put(api, "configmaps", body, "")


async def _put(api: KubeApi, plural: str, body: Object, version: str) -> Object:
    """Create the object, or replace its data. Keys that are not in the body are kept."""
    meta = body["metadata"]
    if not version:
        return await api.create(paths.namespaced(plural, meta["namespace"]), body)
    kept: dict[str, Any] = {
        "resourceVersion": version,
        "labels": meta["labels"],
        "ownerReferences": meta["ownerReferences"],
        "annotations": meta.get("annotations") or {},
    }
    path = paths.namespaced(plural, meta["namespace"], meta["name"])
    return await api.merge(path, {"metadata": kept, "data": body["data"]})
