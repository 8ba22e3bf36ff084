"""Problems of a certificate, a key or a Secret: one reason and one message for each case.

A message names the Secret, the problem, and what happens or what to do. It never contains any part of a key.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from quorum_node.security.certificate_identity import Role
from quorum_operator.certificates.handshake import rejection
from quorum_operator.certificates.holders import Holder
from quorum_operator.certificates.issuing import Pair
from quorum_operator.certificates.pem import (
    Read,
    Unreadable,
    anchor_of,
    count_of,
    key_fits,
    read,
    read_all,
    signed_by,
)
from quorum_operator.desired.names import Owner

CERTIFICATE, KEY, BUNDLE, KEYSTORE = "tls.crt", "tls.key", "ca.crt", "keystore.pem"
AUTHORITY_CERTIFICATE, AUTHORITY_KEY = "ca.crt", "ca.key"


MOST_CHAINED, MOST_BUNDLED = 10, 200
"""Maximum number of certificates in a chain and in a bundle: members refuse more."""

STAYS = "Until then the certificates in use stay in use"
"""End of a message about an object that the user has to correct."""


class Reason(StrEnum):
    """Reasons why a key pair can't be used."""

    MISSING = "Missing"
    HALF_WRITTEN = "HalfWritten"
    KEY_MISMATCH = "KeyMismatch"
    WRONG_AUTHORITY = "WrongAuthority"
    NOT_YET_VALID = "NotYetValid"
    EXPIRED = "Expired"
    WRONG_NAME = "WrongName"
    WRONG_IDENTITY = "WrongIdentity"
    REFUSED = "Refused"
    NOT_AN_AUTHORITY = "NotAnAuthority"
    CANNOT_CERTIFY = "CannotCertify"
    SAME_NAME = "SameName"


@dataclass(frozen=True, slots=True)
class Problem:
    """A reason with its message."""

    reason: Reason
    message: str


def data_of(found: Mapping[str, Any] | None) -> Mapping[str, bytes] | None:
    """The data of a Secret or a ConfigMap; None if the object is missing."""
    if found is None:
        return None
    data = found.get("data") or {}
    if found.get("kind") == "ConfigMap":
        return {key: str(value).encode() for key, value in data.items()}
    return decoded(data)


def decoded(data: Mapping[str, str] | None) -> dict[str, bytes]:
    """Decode the `data` of a Secret; omit values that are not Base64."""
    found = {}
    for key, value in (data or {}).items():
        try:
            found[key] = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            continue
    return found


def check_leaf(
    secret: str,
    data: Mapping[str, bytes] | None,
    owner: Owner,
    holder: Holder,
    trusted: tuple[Read, ...],
    now: float,
    mended: str = "The operator issues a new one",
) -> Read | Problem:
    """The certificate in a holder's Secret, or its first problem. `data`: None if the Secret is missing; `mended`:
    what the operator does about it.
    """
    where = f"Secret {owner.namespace}/{secret}"
    if data is None:
        return Problem(Reason.MISSING, f"{where} was deleted. {mended}")
    found = _pair(where, data, CERTIFICATE, KEY, mended)
    if isinstance(found, Problem):
        return found
    try:
        if (count := count_of(data[CERTIFICATE])) > MOST_CHAINED:
            text = f"{where}: members refuse {CERTIFICATE}: it has {count} certificates, more than {MOST_CHAINED}"
            return Problem(Reason.REFUSED, f"{text}. {mended}")
        chain = read_all(data[CERTIFICATE])
    except Unreadable as error:
        text = f"{where} is incomplete: {CERTIFICATE}: {error}"
        return Problem(Reason.HALF_WRITTEN, f"{text}. {mended}")
    anchor = anchor_of(chain, trusted)
    if anchor is None:
        known = ", ".join(each.common_name for each in trusted) or "none"
        text = (
            f"{where}: {CERTIFICATE} is signed by {found.issuer!r}, which is not a certificate authority of this "
            f"quorum ({known})"
        )
        return Problem(Reason.WRONG_AUTHORITY, f"{text}. {mended}")
    late = _time(where, found, now, mended)
    if late is not None:
        return late
    missing = sorted(set(holder.dns_names) - found.dns_names)
    if missing:
        text = f"{where}: {CERTIFICATE} lacks the name {missing[0]}"
        return Problem(Reason.WRONG_NAME, f"{text}. {mended}")
    own = holder.identity(owner).uri()
    if found.uris != {own}:
        subjects = ", ".join(sorted(found.uris)) or "no identity"
        text = f"{where}: {CERTIFICATE} is issued to {subjects}, not to {own}"
        return Problem(Reason.WRONG_IDENTITY, f"{text}. {mended}")
    pair = Pair(found, data[KEY].decode(errors="replace"), chain[1:])
    why = rejection(pair, anchor, serves=holder.role is Role.MEMBER)
    if why is not None:
        text = f"{where}: members refuse {CERTIFICATE}: {why}"
        return Problem(Reason.REFUSED, f"{text}. {mended}")
    return found


def check_given(where: str, data: Mapping[str, bytes] | None, now: float) -> Read | Problem:
    """The certificate of a user's authority, or its first problem. `where`: such as `Secret n/corporate`."""
    wanted = f"Put a CA certificate into {CERTIFICATE} and its key into {KEY}. {STAYS}"
    if data is None:
        return Problem(
            Reason.MISSING, f"{where} does not exist: spec.tls.caSecret names it. {wanted}"
        )
    found = _pair(where, data, CERTIFICATE, KEY, wanted)
    if isinstance(found, Problem):
        return found
    if not found.is_authority:
        text = (
            f"{where}: {CERTIFICATE} has {found.subject!r}, which may not sign certificates (basic constraints, key "
            "usage)"
        )
        return Problem(Reason.NOT_AN_AUTHORITY, f"{text}. {wanted}")
    return _time(where, found, now, wanted) or found


def check_authority(
    secret: str,
    data: Mapping[str, bytes] | None,
    owner: Owner,
    generation: int,
    now: float,
    *,
    given: bool = False,
) -> Read | Problem:
    """The certificate in an authority's Secret, or its first problem.

    Expiry is not a problem here, because the planner replaces an authority in time. `given`: it was copied from the
    user's Secret and may have any name.
    """
    where = f"Secret {owner.namespace}/{secret}"
    mended = "The operator creates a new certificate authority, which takes over once all members trust it"
    if data is None:
        return Problem(Reason.MISSING, f"{where} was deleted, and the key with it. {mended}")
    found = _pair(where, data, AUTHORITY_CERTIFICATE, AUTHORITY_KEY, mended)
    if isinstance(found, Problem):
        return found
    own = found.generation == generation and signed_by(found, found)
    if not (found.is_authority if given else own):
        text = f"{where}: {AUTHORITY_CERTIFICATE} ({found.common_name!r}) is not authority {generation} of this quorum"
        return Problem(Reason.WRONG_AUTHORITY, f"{text}. {mended}")
    early = _time(where, found, now, mended)
    return early if early is not None and early.reason is Reason.NOT_YET_VALID else found


def check_bundle(
    what: str, data: Mapping[str, bytes] | None, key: str = BUNDLE
) -> tuple[Read, ...] | Problem:
    """The authorities in a bundle, or its problem. `what`: the object, such as `ConfigMap n/q-trust`."""
    mended = "The operator writes it again"
    if data is None:
        return Problem(Reason.MISSING, f"{what} was deleted. {mended}")
    try:
        if (count := count_of(data.get(key, b""))) > MOST_BUNDLED:
            text = f"{what}: {key} holds {count} certificates, more than {MOST_BUNDLED}"
            return Problem(Reason.HALF_WRITTEN, f"{text}. {mended}")
        found = read_all(data.get(key, b""))
    except Unreadable as error:
        return Problem(Reason.HALF_WRITTEN, f"{what}: {key}: {error}. {mended}")
    if not found:
        return Problem(Reason.HALF_WRITTEN, f"{what}: {key} holds no certificate. {mended}")
    return found


def _pair(
    where: str, data: Mapping[str, bytes], certificate: str, key: str, mended: str
) -> Read | Problem:
    for name in (certificate, key):
        if not data.get(name, b"").strip():
            text = f"{where} is incomplete: {name} is missing"
            return Problem(Reason.HALF_WRITTEN, f"{text}. {mended}")
    name = certificate
    try:
        if (count := count_of(data[certificate])) > MOST_BUNDLED:
            text = f"{where}: {certificate} holds {count} certificates, more than {MOST_BUNDLED}"
            return Problem(Reason.HALF_WRITTEN, f"{text}. {mended}")
        found = read(data[certificate])
        name = key
        fits = key_fits(data[key], found)
    except Unreadable as error:
        return Problem(Reason.HALF_WRITTEN, f"{where} is incomplete: {name}: {error}. {mended}")
    if not fits:
        text = f"{where}: {key} is not the key of {certificate}"
        return Problem(Reason.KEY_MISMATCH, f"{text}. {mended}")
    return found


def _time(where: str, found: Read, now: float, mended: str) -> Problem | None:
    clock = f"by the API server's clock it is {time_text(now)}"
    begin, end = found.validity.not_before, found.validity.not_after
    if now < begin:
        text = f"{where}: its certificate is not valid before {time_text(begin)}; {clock}"
        return Problem(
            Reason.NOT_YET_VALID, f"{text}. {mended}; if this persists, correct the clocks"
        )
    if now >= end:
        text = f"{where}: its certificate expired at {time_text(end)}; {clock}"
        return Problem(Reason.EXPIRED, f"{text}. {mended}")
    return None


def time_text(seconds: float) -> str:
    """Format a time in UTC as Kubernetes does, such as 2024-01-31T00:00:00Z."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
