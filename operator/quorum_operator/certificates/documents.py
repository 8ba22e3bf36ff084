"""Builds and parses the Secrets and the ConfigMap with certificates.

`QUORUM-ca-N`: one authority, immutable, with its stages as annotations. `MEMBER-tls` and `QUORUM-NAME-tls`: a
holder's key pair and trust bundle in one object, so that both are replaced together. `QUORUM-trust`: the bundle for
brokers and clients.
"""

from base64 import b64encode
from datetime import datetime
from typing import Any

from quorum_node.security.certificate_identity import Role
from quorum_operator.certificates import checks
from quorum_operator.certificates.checks import Problem, Reason
from quorum_operator.certificates.facts import AuthoritySecret, LeafSecret
from quorum_operator.certificates.holders import Holder
from quorum_operator.certificates.issuing import Pair
from quorum_operator.certificates.pem import Read, read, read_all
from quorum_operator.desired.names import PREFIX, REVOKED_FILE, Owner, metadata
from quorum_operator.quantity import whole_number

ANNOTATION_SIGNING = f"{PREFIX}/ca-signing"
ANNOTATION_RETIRED = f"{PREFIX}/ca-retired"
ANNOTATION_SIGNED_UNTIL = f"{PREFIX}/ca-signed-until"
"""Seconds since 1970."""
ANNOTATION_GIVEN = f"{PREFIX}/ca-from"
"""On an authority's Secret: name of the user's Secret that it was copied from."""
ANNOTATION_REQUESTED = f"{PREFIX}/ca-requested"
"""On an authority's Secret: the user's rotation request that was open when it was created and that it fulfils."""
ANNOTATION_GENERATION = f"{PREFIX}/ca-generation"
"""On a holder's Secret: generation of the authority that signed its certificate."""
ANNOTATION_EXTRAS = f"{PREFIX}/trusted-cas"
"""On a holder's Secret: fingerprints of the authorities in its bundle that do not belong to this quorum."""

Object = dict[str, Any]


def authority_name(owner: Owner, generation: int) -> str:
    """Name of the authority's Secret."""
    return f"{owner.name}-ca-{generation}"


def trust_name(owner: Owner) -> str:
    """Name of the ConfigMap with the bundle."""
    return f"{owner.name}-trust"


def leaf_name(owner: Owner, holder: Holder) -> str:
    """Name of the holder's Secret. A member's name already begins with the quorum's name."""
    return f"{holder.name}-tls" if holder.role is Role.MEMBER else f"{owner.name}-{holder.name}-tls"


def authority_secret(
    owner: Owner,
    generation: int,
    pair: Pair,
    *,
    signing: bool,
    given_by: str = "",
    requested: int = 0,
) -> Object:
    """The Secret of an authority, for creation only.

    `given_by`: name of the user's Secret that the key pair comes from; empty if the operator generated it. `requested`:
    the rotation request that it fulfils, 0 for none.
    """
    meta = metadata(owner, authority_name(owner, generation))
    notes = {ANNOTATION_SIGNING: "true"} if signing else {}
    notes |= {ANNOTATION_GIVEN: given_by} if given_by else {}
    meta["annotations"] = notes | ({ANNOTATION_REQUESTED: str(requested)} if requested else {})
    data = {
        checks.AUTHORITY_CERTIFICATE: _encoded(pair.certificate.pem),
        checks.AUTHORITY_KEY: _encoded(pair.key_pem),
    }
    return _secret(meta, data) | {"immutable": True}


def leaf_secret(
    owner: Owner,
    holder: Holder,
    pair: Pair | None,
    bundle: tuple[Read, ...],
    *,
    extras: frozenset[str] = frozenset(),
    generation: int | None = None,
    revoked: str | None = None,
) -> Object:
    """A Secret with a key pair and bundle, or only the bundle. `keystore.pem` (key, then certificate) is for stock
    Kafka.
    """
    meta = metadata(owner, leaf_name(owner, holder))
    signed_by = {} if generation is None else {ANNOTATION_GENERATION: str(generation)}
    meta["annotations"] = {ANNOTATION_EXTRAS: ",".join(sorted(extras))} | signed_by
    data = {checks.BUNDLE: _encoded(bundle_text(bundle))}
    if revoked is not None:
        data[REVOKED_FILE] = _encoded(revoked)
    if pair is not None:
        data |= {
            checks.CERTIFICATE: _encoded(pair.chain_pem),
            checks.KEY: _encoded(pair.key_pem),
            checks.KEYSTORE: _encoded(pair.key_pem + pair.chain_pem),
        }
    return _secret(meta, data)


def trust_config_map(owner: Owner, bundle: tuple[Read, ...]) -> Object:
    """The trust bundle for brokers and clients."""
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
    given = bool(notes.get(ANNOTATION_GIVEN))
    found = checks.check_authority(name, data, owner, generation, now, given=given)
    return AuthoritySecret(
        generation=generation,
        certificate=None if isinstance(found, Problem) else found,
        version=version_of(secret),
        problem=found.message if isinstance(found, Problem) else "",
        signing=notes.get(ANNOTATION_SIGNING) == "true",
        retired=notes.get(ANNOTATION_RETIRED) == "true",
        signed_until=float(whole_number(notes.get(ANNOTATION_SIGNED_UNTIL)) or 0),
        given=given,
        made_at=_made_at(meta),
        requested=whole_number(notes.get(ANNOTATION_REQUESTED)) or 0,
    )


def read_leaf(
    owner: Owner, holder: Holder, secret: Object, trusted: tuple[Read, ...], now: float
) -> LeafSecret:
    """The facts of a holder's Secret. An unreadable bundle counts as missing."""
    data = checks.decoded(secret.get("data"))
    found = checks.check_leaf(leaf_name(owner, holder), data, owner, holder, trusted, now)
    usable = None if isinstance(found, Problem) else found
    expired = isinstance(found, Problem) and found.reason is Reason.EXPIRED
    dated = read(data[checks.CERTIFICATE]) if expired else usable
    return LeafSecret(
        holder=holder.name,
        certificate=usable,
        bundle=bundle_of(owner, holder, secret),
        version=version_of(secret),
        problem=found.message if isinstance(found, Problem) else "",
        extras=extras_of(secret),
        above=() if isinstance(found, Problem) else read_all(data[checks.CERTIFICATE])[1:],
        revoked=revoked_in(secret),
        due_at=None if dated is None else dated.validity.leaf_due_at,
    )


def revoked_in(secret: Object) -> str | None:
    """The file of revoked certificates in a holder's Secret."""
    found = checks.decoded(secret.get("data")).get(REVOKED_FILE)
    return None if found is None else found.decode(errors="replace")


def extras_of(secret: Object) -> frozenset[str]:
    """Additional trusted authorities that a holder's Secret records."""
    text = (secret["metadata"].get("annotations") or {}).get(ANNOTATION_EXTRAS, "")
    return frozenset(filter(None, text.split(",")))


def generation_of(secret: Object) -> int | None:
    """Generation of the authority that signed a holder's certificate, as recorded in the Secret."""
    return whole_number((secret["metadata"].get("annotations") or {}).get(ANNOTATION_GENERATION))


def is_named_by(owner: Owner, authority: Read) -> bool:
    """Whether it has the name that the operator gives to authorities of this quorum."""
    return (
        authority.subject == f"CN=quorum CA {authority.generation},O={owner.name}.{owner.namespace}"
    )


def _made_at(meta: Object) -> float:
    try:
        return datetime.fromisoformat(meta["creationTimestamp"]).timestamp()
    except (KeyError, ValueError):
        return float("inf")


def bundle_of(owner: Owner, holder: Holder, secret: Object) -> tuple[Read, ...]:
    """The bundle in a holder's Secret; empty if it can't be read."""
    data = checks.decoded(secret.get("data"))
    found = checks.check_bundle(f"Secret {owner.namespace}/{leaf_name(owner, holder)}", data)
    return () if isinstance(found, Problem) else found


def version_of(found: Object) -> str:
    """The resource version for conditional patches."""
    version: str = found["metadata"].get("resourceVersion", "")
    return version


def read_trust(owner: Owner, config_map: Object) -> tuple[Read, ...]:
    """The bundle; empty if it can't be read."""
    text = (config_map.get("data") or {}).get(checks.BUNDLE, "")
    what = f"ConfigMap {owner.namespace}/{trust_name(owner)}"
    found = checks.check_bundle(what, {checks.BUNDLE: text.encode()})
    return () if isinstance(found, Problem) else found


def bundle_text(bundle: tuple[Read, ...]) -> str:
    """Concatenated PEM certificates."""
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
