"""Converts `spec.tls.revoked` and its objects to the file of revoked certificates that each member reads. Pure.

The file is a key of the member's Secret, so that a change restarts no member. Its format is that of
`quorum_node/security/tls/revocation.py`: serials, one per line, followed by revocation lists (CRL) in PEM. It is never
empty, because a node with revoked certificates treats an empty file as incompletely written.

An unusable object is reported. Until it is corrected, revoked certificates stay revoked, and the other objects take
effect.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from quorum_node.security.tls.problems import CertificateProblem
from quorum_node.security.tls.revocation import load_revoked
from quorum_operator.certificates import checks
from quorum_operator.desired.names import REVOKED_FILE
from quorum_operator.planner.certificates_seen import Trouble
from quorum_operator.tls_crd import RevokedSpec

Object = dict[str, Any]

MOST_BYTES = 512 * 1024
"""Maximum size of the file. A Secret is limited to 1 MiB and also contains the key pair and the bundle."""
MOST_READ_BYTES = 2 * MOST_BYTES
"""Maximum size of the texts that are parsed for it, with the words around lists: the operator serves all quorums in one loop, and a MiB of
serials takes 0.3 s.
"""
_MOST_DIGITS = 40
"""Maximum length of a serial: 20 octets (RFC 5280, section 4.1.2.2)."""
_FIRST_LINE = "# Revoked certificates, as spec.tls.revoked says\n"
_SERIAL = "serial="
_LIST = re.compile(r"-----BEGIN X509 CRL-----[^-]*-----END X509 CRL-----\n?")
_STAYS = "Certificates that are revoked already stay revoked, and all other entries take effect"


@dataclass(frozen=True, slots=True)
class Revoked:
    """Revoked certificates. `serials`: hexadecimal digits without leading zeros; `lists`: PEM. `is_complete`: all objects
    could be read.
    """

    serials: frozenset[str] = frozenset()
    lists: frozenset[str] = frozenset()
    is_complete: bool = True

    @property
    def text(self) -> str:
        """Contents of the file."""
        lines = "".join(f"{_SERIAL}{each}\n" for each in sorted(self.serials))
        return _FIRST_LINE + lines + "".join(sorted(self.lists))

    def beside(self, earlier: Iterable[str]) -> "Revoked":
        """Return the union of this and the contents of earlier files; unreadable files are skipped."""
        found = [_parts(each) for each in set(earlier) if _is_readable(each)]
        serials = self.serials.union(*(each.serials for each in found))
        return Revoked(serials, self.lists.union(*(each.lists for each in found)), self.is_complete)


def revoked(
    space: str, spec: RevokedSpec | None, found: tuple[Object | None, ...]
) -> tuple[Revoked | None, tuple[Trouble, ...]]:
    """Return what the spec revokes (None if it has no `revoked`), and the problems of its objects. `found`: in the order
    of the spec.
    """
    if spec is None:
        return None, ()
    requested = frozenset(map(_canonical, spec.serials or ()))
    serials = {each for each in requested if len(each) <= _MOST_DIGITS}
    lists: set[str] = set()
    troubles = [_too_long(each) for each in sorted(requested - serials)]
    at_once, left = frozenset(serials), MOST_READ_BYTES
    for source, there in zip(spec.lists or (), found, strict=False):
        what = f"{source.kind} {space}/{source.name}"
        content: bytes | Revoked | Trouble = _content(what, source.key, there)
        if isinstance(content, bytes):
            left -= len(content)
            if left < 0:
                break
            content = _read(f"{what}: {source.key}", content)
        if isinstance(content, Trouble):
            troubles.append(content)
        else:
            serials |= content.serials
            lists |= content.lists
    made = Revoked(frozenset(serials), frozenset(lists), not troubles)
    if left < 0 or len(made.text.encode()) > MOST_BYTES:
        text = (
            f"what spec.tls.revoked names is longer than {MOST_BYTES} bytes in total, or {MOST_READ_BYTES} bytes with the text "
            f"around lists: name fewer or shorter lists, or fewer serials. {_STAYS}"
        )
        troubles.append(Trouble("RevokedTooLong", text))
        # Serials are typed by people in a hurry, so they take effect even if the lists are invalid.
        made = Revoked(at_once, is_complete=False)
    return made, tuple(troubles)


def file_for(wanted: Revoked | None, earlier: Iterable[str]) -> str | None:
    """The file for each member's Secret; None if the spec has no `revoked`. `earlier`: the files in the Secrets now."""
    if wanted is None:
        return None
    if wanted.is_complete:
        return wanted.text
    kept = wanted.beside(earlier).text
    return kept if len(kept.encode()) <= MOST_BYTES else wanted.text


def _content(what: str, key: str, there: Object | None) -> bytes | Trouble:
    requirement = f"spec.tls.revoked names it for {key}, which has to hold revocation lists (CRL) in PEM, or serials. {_STAYS}"
    data = checks.data_of(there)
    if data is None:
        return Trouble("RevokedMissing", f"{what} does not exist: {requirement}")
    if key not in data:
        return Trouble("RevokedMissing", f"{what} has no {key}: {requirement}")
    content = data[key]
    # An object is written atomically, so a missing final newline does not mean truncation.
    return content + b"\n" if content.strip() and not content.endswith(b"\n") else content


def _read(what: str, content: bytes) -> Revoked | Trouble:
    try:
        load_revoked(content, what)
        return _parts(content.decode())
    except UnicodeDecodeError:
        return Trouble("RevokedUnreadable", f"{what} is not text. {_STAYS}")
    except CertificateProblem as error:
        return Trouble("RevokedUnreadable", f"{error}. {_STAYS}")


def _too_long(serial: str) -> Trouble:
    text = f"spec.tls.revoked.serials has {serial}, which is longer than a serial can be ({_MOST_DIGITS} digits). {_STAYS}"
    return Trouble("RevokedUnreadable", text)


def _is_readable(text: str) -> bool:
    """Whether a file from a member's Secret is valid; another client may have edited it."""
    try:
        load_revoked(text.encode(), REVOKED_FILE)
    except CertificateProblem:
        return False
    return True


def _parts(text: str) -> Revoked:
    """Parse a valid file."""
    lists = frozenset(each.strip() + "\n" for each in _LIST.findall(text))
    lines = [line.partition("#")[0].strip() for line in _LIST.sub("", text).splitlines()]
    if lists:  # Programs add explanatory text to lists, so only marked lines are serials there.
        lines = [line for line in lines if line.startswith(_SERIAL)]
    return Revoked(frozenset(_canonical(line) for line in lines if line), lists)


def _canonical(serial: str) -> str:
    digits = serial.strip().removeprefix(_SERIAL).replace(":", "").lower()
    return digits.lstrip("0") or "0"
