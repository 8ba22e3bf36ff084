"""The Secrets and the ConfigMap that hold certificates, as objects: built, and read back.

`QUORUM-ca-N`: one authority, immutable; its stages are annotations. `MEMBER-tls` and `QUORUM-NAME-tls`: a holder's pair and
the bundle that it trusts, as one object, so that both are replaced together. `QUORUM-trust`: the bundle for brokers and clients.
"""

from base64 import b64encode
from typing import Any

from quorum_node.security.certificate_identity import Role
from quorum_operator.certificates import checks
from quorum_operator.certificates.checks import Problem
from quorum_operator.certificates.facts import AuthoritySecret, LeafSecret
from quorum_operator.certificates.holders import Holder
from quorum_operator.certificates.issuing import Pair
from quorum_operator.certificates.pem import Read
from quorum_operator.desired.names import PREFIX, Owner, metadata

ANNOTATION_SIGNING = f"{PREFIX}/ca-signing"
ANNOTATION_RETIRED = f"{PREFIX}/ca-retired"
ANNOTATION_SIGNED_UNTIL = f"{PREFIX}/ca-signed-until"
"""Seconds since 1970."""

Object = dict[str, Any]


def authority_name(owner: Owner, generation: int) -> str:
    """Of its Secret."""
    return f"{owner.name}-ca-{generation}"


def trust_name(owner: Owner) -> str:
    """Of the ConfigMap with the bundle."""
    return f"{owner.name}-trust"


def leaf_name(owner: Owner, holder: Holder) -> str:
    """Of its Secret; a member's name begins with the quorum's already."""
    return f"{holder.name}-tls" if holder.role is Role.MEMBER else f"{owner.name}-{holder.name}-tls"


def authority_secret(owner: Owner, generation: int, pair: Pair, *, signing: bool) -> Object:
    """Create-only."""
    meta = metadata(owner, authority_name(owner, generation))
    meta["annotations"] = {ANNOTATION_SIGNING: "true"} if signing else {}
    data = {
        checks.AUTHORITY_CERTIFICATE: _encoded(pair.certificate.pem),
        checks.AUTHORITY_KEY: _encoded(pair.key_pem),
    }
    return _secret(meta, data) | {"immutable": True}


def leaf_secret(
    owner: Owner, holder: Holder, pair: Pair | None, bundle: tuple[Read, ...]
) -> Object:
    """With a pair, or the bundle alone. `keystore.pem` is what stock Kafka reads: the key, then the certificate."""
    data = {checks.BUNDLE: _encoded(bundle_text(bundle))}
    if pair is not None:
        data |= {
            checks.CERTIFICATE: _encoded(pair.certificate.pem),
            checks.KEY: _encoded(pair.key_pem),
            checks.KEYSTORE: _encoded(pair.key_pem + pair.certificate.pem),
        }
    return _secret(metadata(owner, leaf_name(owner, holder)), data)


def trust_config_map(owner: Owner, bundle: tuple[Read, ...]) -> Object:
    """What brokers and clients trust; it is no secret."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(owner, trust_name(owner)),
        "data": {checks.BUNDLE: bundle_text(bundle)},
    }


def read_authority(owner: Owner, generation: int, secret: Object, now: float) -> AuthoritySecret:
    """The facts of an authority's Secret."""
    meta = secret["metadata"]
    notes = meta.get("annotations") or {}
    data = checks.decoded(secret.get("data"))
    name = authority_name(owner, generation)
    found = checks.check_authority(name, data, owner, generation, now)
    until = notes.get(ANNOTATION_SIGNED_UNTIL, "")
    return AuthoritySecret(
        generation=generation,
        certificate=None if isinstance(found, Problem) else found,
        version=version_of(secret),
        problem=found.message if isinstance(found, Problem) else "",
        signing=notes.get(ANNOTATION_SIGNING) == "true",
        retired=notes.get(ANNOTATION_RETIRED) == "true",
        signed_until=float(until) if until.isdecimal() else 0.0,
    )


def read_leaf(
    owner: Owner, holder: Holder, secret: Object, trusted: tuple[Read, ...], now: float
) -> LeafSecret:
    """The facts of a holder's Secret. A bundle that can't be read is as good as none."""
    data = checks.decoded(secret.get("data"))
    found = checks.check_leaf(leaf_name(owner, holder), data, owner, holder, trusted, now)
    return LeafSecret(
        holder=holder.name,
        certificate=None if isinstance(found, Problem) else found,
        bundle=bundle_of(owner, holder, secret),
        version=version_of(secret),
        problem=found.message if isinstance(found, Problem) else "",
    )


def bundle_of(owner: Owner, holder: Holder, secret: Object) -> tuple[Read, ...]:
    """The bundle in a holder's Secret; empty if it can't be read."""
    data = checks.decoded(secret.get("data"))
    found = checks.check_bundle(f"Secret {owner.namespace}/{leaf_name(owner, holder)}", data)
    return () if isinstance(found, Problem) else found


def version_of(found: Object) -> str:
    """What a patch of it is bound to."""
    version: str = found["metadata"].get("resourceVersion", "")
    return version


def read_trust(owner: Owner, config_map: Object) -> tuple[Read, ...]:
    """The bundle; empty if it can't be read."""
    text = (config_map.get("data") or {}).get(checks.BUNDLE, "")
    what = f"ConfigMap {owner.namespace}/{trust_name(owner)}"
    found = checks.check_bundle(what, {checks.BUNDLE: text.encode()})
    return () if isinstance(found, Problem) else found


def bundle_text(bundle: tuple[Read, ...]) -> str:
    """PEM, one after the other."""
    return "".join(each.pem for each in bundle)


def _secret(meta: dict[str, object], data: dict[str, str]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": meta,
        "type": "Opaque",
        "data": data,
    }


def _encoded(text: str) -> str:
    return b64encode(text.encode()).decode()
