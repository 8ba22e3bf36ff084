"""Restores the owner and the labels of objects with certificates, which other clients may edit. Pure.

An object without owner would not be written any more, and outlive the resource, also the key of an authority. It gets
its owner back only if its contents prove that it is this quorum's:

* the key pair of a holder that a known authority of the quorum has signed;
* a known authority with its key, under the name of its own generation;
* a bundle of known authorities only.

Whoever may create Secrets can't forge any of this. Objects that another client has given to other owners are left
alone; a rejected write reports them.
"""

from collections.abc import Iterator

from quorum_operator.certificates import documents
from quorum_operator.certificates.documents import Object
from quorum_operator.certificates.facts import Seen
from quorum_operator.certificates.holders import Holder
from quorum_operator.certificates.known import known_authorities
from quorum_operator.certificates.objects import Objects
from quorum_operator.certificates.pem import Read
from quorum_operator.certificates.steps import RestoreOwner
from quorum_operator.desired.names import Owner
from quorum_operator.quantity import whole_number

SECRET, CONFIG_MAP = "Secret", "ConfigMap"


def restorations(
    owner: Owner,
    found: Objects,
    ownerless: tuple[Object, ...],
    all_holders: tuple[Holder, ...],
    seen: Seen,
) -> Iterator[RestoreOwner]:
    """A step for each object to restore. `ownerless`: objects with the quorum's names, with their kinds."""
    for kind, each in _owned(found):
        why = _edited(owner, each)
        if why is not None:
            yield _restore(kind, each, why)
    known = known_authorities(seen)
    holders = {documents.leaf_name(owner, each): each for each in all_holders}
    for each in ownerless:
        if _is_proven(owner, each, holders, known, seen.now):
            yield _restore(each["kind"], each, "its owner was removed")


def _owned(found: Objects) -> Iterator[tuple[str, Object]]:
    for each in (*found.authorities.values(), *found.leaves.values()):
        yield SECRET, each
    if found.trust is not None:
        yield CONFIG_MAP, found.trust


def _edited(owner: Owner, found: Object) -> str | None:
    """What another client changed; None if nothing. Additional labels are not changed back."""
    meta = found["metadata"]
    if len(meta.get("ownerReferences") or ()) > 1:
        return "another owner was added"  # with which it would outlive the resource
    labels = meta.get("labels") or {}
    return None if labels.items() >= owner.labels.items() else "its labels were edited"


def _is_proven(
    owner: Owner, found: Object, holders: dict[str, Holder], known: tuple[Read, ...], now: float
) -> bool:
    kind, name = found["kind"], found["metadata"]["name"]
    trusted = {each.fingerprint for each in known}
    if kind == CONFIG_MAP:
        bundle = documents.read_trust(owner, found)
        return bool(bundle) and {each.fingerprint for each in bundle} <= trusted
    if kind != SECRET:
        return False
    holder = holders.get(name)
    if holder is not None:
        return documents.read_leaf(owner, holder, found, known, now).certificate is not None
    generation = whole_number(name.rpartition("-")[2])
    if generation is None or name != documents.authority_name(owner, generation):
        return False
    certificate = documents.read_authority(owner, generation, found, now).certificate
    return certificate is not None and certificate.fingerprint in trusted


def _restore(kind: str, found: Object, why: str) -> RestoreOwner:
    meta = found["metadata"]
    return RestoreOwner(kind, meta["name"], meta["uid"], documents.version_of(found), why)
