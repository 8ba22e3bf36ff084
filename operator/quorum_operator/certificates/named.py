"""The user's objects that `spec.tls` names: an authority in a Secret, and additional trusted authorities. Pure.

An unusable object is reported with one message, and everything in use stays in use.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from quorum_operator.certificates import checks
from quorum_operator.certificates.checks import Problem, Reason
from quorum_operator.certificates.issuing import Pair
from quorum_operator.certificates.pem import Read, Unreadable, count_of, read, read_all
from quorum_operator.certificates.revoked import Revoked, revoked
from quorum_operator.planner.certificates_seen import Trouble
from quorum_operator.tls_crd import DNS_NAME, TlsIdentity, TlsSpec, TrustedCa

Object = dict[str, Any]

_DNS_NAME = re.compile(DNS_NAME)
MOST_TRUSTED = 64
"""Maximum number of certificates in `spec.tls.trustedCAs`, because each holder's Secret contains all of them."""
MOST_READ = 512
"""Maximum number of certificates that are parsed to find those, because the operator serves all quorums in one loop."""


@dataclass(frozen=True, slots=True)
class NamedObjects:
    """The objects as returned by the API server, None for missing ones. `trusted`: in the order of the spec."""

    authority: Object | None = None
    trusted: tuple[Object | None, ...] = ()
    revoked: tuple[Object | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Named:
    """Facts about the named objects.

    `secret`: name of the Secret with the authority, empty if the spec names none; `authority`: None if it can't be
    used.
    """

    secret: str = ""
    authority: Read | None = None
    trusted: tuple[Read, ...] = ()
    """Authorities that are trusted in addition to the quorum's own."""
    is_complete: bool = True
    """Whether all of them could be read; otherwise the previously trusted ones are kept."""
    troubles: tuple[Trouble, ...] = ()
    revoked: Revoked | None = None
    """None if the spec has no `revoked`."""


def named(space: str, spec: TlsSpec | None, found: NamedObjects, now: float) -> Named:
    """The named objects as facts. `space`: the namespace, for messages."""
    if spec is None:
        return Named()
    trusted, is_complete, troubles = _trusted(space, spec.trusted_cas or [], found.trusted, now)
    refused, unread = revoked(space, spec.revoked, found.revoked)
    troubles += (*unread, *_unusable(spec))
    if spec.ca_secret is None:
        return Named("", None, trusted, is_complete, troubles, refused)
    name = spec.ca_secret.name
    checked = checks.check_given(f"Secret {space}/{name}", checks.data_of(found.authority), now)
    authority = checked if isinstance(checked, Read) else None
    if isinstance(checked, Problem):
        troubles = (Trouble(checked.reason.value, checked.message), *troubles)
    elif now >= checked.validity.authority_due_at:
        troubles = (_ends_soon(f"Secret {space}/{name}", checked), *troubles)
    return Named(name, authority, trusted, is_complete, troubles, refused)


def unusable_name(identity: TlsIdentity) -> str | None:
    """The first DNS name that no certificate can contain, or None. The CRD of an earlier version accepted such names."""
    names = identity.dns_names or ()
    return next((each for each in names if not _DNS_NAME.fullmatch(each)), None)


def _unusable(spec: TlsSpec) -> tuple[Trouble, ...]:
    found = ((each.name, unusable_name(each)) for each in spec.identities or ())
    return tuple(
        Trouble(
            "NameUnusable",
            f"spec.tls.identities: {name} has the DNS name {wrong!r}, which no certificate can contain. Write it in ASCII "
            f"(xn--…). {name} gets no certificate until then; all others do",
        )
        for name, wrong in found
        if wrong is not None
    )


def without_clash(space: str, given: Named, present: Iterable[Read]) -> Named:
    """Reject an authority with the same subject as the current one that can't be distinguished from it while both are
    trusted.
    """
    mine = given.authority
    if mine is None:
        return given
    for each in present:
        if each.subject != mine.subject or each.key == mine.key:
            continue
        if not mine.key_id or not each.key_id or mine.key_id == each.key_id:
            text = (
                f"Secret {space}/{given.secret}: {checks.CERTIFICATE} has the same subject ({mine.subject!r}) as the "
                "authority that it replaces, a different key, and no subject key identifier to tell them apart. Give "
                "it a different subject or a subject key identifier."
                f" {checks.STAYS}"
            )
            trouble = Trouble(Reason.SAME_NAME.value, text)
            return replace(given, authority=None, troubles=(trouble, *given.troubles))
    return given


def pair_of(found: NamedObjects) -> Pair:
    """The authority's certificate and key. Raises Unreadable."""
    data = checks.data_of(found.authority) or {}
    try:
        return Pair(read(data.get(checks.CERTIFICATE, b"")), data.get(checks.KEY, b"").decode())
    except UnicodeDecodeError:
        raise Unreadable("not PEM") from None


def _ends_soon(where: str, authority: Read) -> Trouble:
    end = checks.time_text(authority.validity.not_after)
    text = (
        f"{where}: the certificate authority expires at {end}, and so do all its certificates. Put its successor, "
        "with its key, into this Secret: all members trust both before the new one signs"
    )
    return Trouble("EndsSoon", text)


def _trusted(
    space: str, sources: list[TrustedCa], found: tuple[Object | None, ...], now: float
) -> tuple[tuple[Read, ...], bool, tuple[Trouble, ...]]:
    good: dict[str, Read] = {}
    is_complete, troubles, left = True, [], MOST_READ
    for source, there in zip(sources, found, strict=False):
        what = f"{source.kind} {space}/{source.name}"
        parsed = _bundle(what, source.key, there, left)
        if isinstance(parsed, Trouble):
            is_complete = False
            troubles.append(parsed)
            continue
        left -= len(parsed)
        for each in parsed:
            trouble = _why_not(what, source.key, each, now)
            if trouble is not None:
                troubles.append(trouble)
            else:
                good[each.fingerprint] = each
    if len(good) > MOST_TRUSTED:
        text = f"spec.tls.trustedCAs names {len(good)} authorities, more than the limit of {MOST_TRUSTED}. {checks.STAYS}"
        return (), False, (*troubles, Trouble("TooMany", text))
    return tuple(good.values()), is_complete, tuple(troubles)


def _bundle(what: str, key: str, there: Object | None, most: int) -> tuple[Read, ...] | Trouble:
    """`most`: number of certificates that may be parsed."""
    wanted = f"spec.tls.trustedCAs names it for {key}, which has to hold CA certificates in PEM. {checks.STAYS}"
    data = checks.data_of(there)
    if data is None:
        return Trouble("TrustedMissing", f"{what} does not exist: {wanted}")
    if not data.get(key, b"").strip():
        return Trouble("TrustedMissing", f"{what} has no {key}: {wanted}")
    try:
        if count_of(data[key]) > most:
            text = f"{what}: {key}: spec.tls.trustedCAs names more than {MOST_READ} certificates, usable or not. Remove some"
            return Trouble("TooMany", f"{text}. {checks.STAYS}")
        found = read_all(data[key])
    except Unreadable as error:
        return Trouble("TrustedUnreadable", f"{what}: {key}: {error}. {checks.STAYS}")
    if not found:
        return Trouble("TrustedUnreadable", f"{what}: {key} holds no certificate: {wanted}")
    return found


def _why_not(what: str, key: str, each: Read, now: float) -> Trouble | None:
    name = f"{what}: {key} has {each.subject!r}"
    if not each.is_authority:
        text = (
            f"{name}, which is not a CA certificate. It is not trusted; the others are. Remove it"
        )
        return Trouble("TrustedUnreadable", text)
    if now >= each.validity.not_after:
        end = checks.time_text(each.validity.not_after)
        text = (
            f"{name}, which has expired at {end}. It is no longer trusted; the others are. Remove it, or replace it "
            "by its successor"
        )
        return Trouble("TrustedExpired", text)
    return None
