"""SCRAM credentials: from a password, from a record, and made up for unknown users. PURE."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from quorum_node.records.metadata import UserScramCredentialRecord
from quorum_node.security.scram.mechanism import MIN_ITERATIONS, ScramMechanism

SALT_BITS = 130
"""Random bits of a salt, as Kafka takes them."""
_BASE_36 = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The stored keys and parameters of a password. The keys are never shown."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    def record(self, user: str, mechanism: ScramMechanism) -> UserScramCredentialRecord:
        """The record in the log."""
        return UserScramCredentialRecord(
            name=user,
            mechanism=mechanism.number,
            salt=self.salt,
            stored_key=self.stored_key,
            server_key=self.server_key,
            iterations=self.iterations,
        )


def made_from_password(
    mechanism: ScramMechanism, password: str, salt: bytes, iterations: int
) -> ScramCredential:
    """A new credential. Takes milliseconds of CPU by design."""
    salted = mechanism.salted_password(password, salt, iterations)
    return made_from_salted_password(mechanism, salted, salt, iterations)


def made_from_salted_password(
    mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """A new credential from a password that the client has salted."""
    stored, server = mechanism.stored_key(salted), mechanism.server_key(salted)
    return ScramCredential(salt, stored, server, iterations)


def usable_credential(
    mechanism: ScramMechanism, record: UserScramCredentialRecord | None
) -> ScramCredential | None:
    """The credential of a record, unless it has fewer iterations or shorter keys than the mechanism
    requires.
    """
    if record is None or record.iterations < MIN_ITERATIONS or not record.salt:
        return None
    keys = record.stored_key, record.server_key
    if any(len(key) != mechanism.key_bytes for key in keys):
        return None
    return ScramCredential(record.salt, *keys, record.iterations)


@dataclass(frozen=True, slots=True)
class Decoy:
    """Parameters of made-up credentials for unknown users.

    `secret`: the same on all nodes and after restarts, as a changed salt would reveal an unknown
    user; not known to clients. `iterations`: for each mechanism the usual number of the quorum, so
    that real users don't differ; `MIN_ITERATIONS` for a mechanism that is not in it.
    """

    secret: bytes = field(repr=False)
    iterations: Mapping[ScramMechanism, int] = field(default_factory=dict)


def fake_credential(mechanism: ScramMechanism, user: str, decoy: Decoy) -> ScramCredential:
    """A credential that matches no password: no known key hashes to the stored one.

    The same user always gets the same salt, as a real one would.
    """
    secret = decoy.secret
    name = mechanism.sasl_name.encode() + b"\0" + user.encode()
    digest = mechanism.keyed(secret, b"salt\0" + name)
    salt = salt_from(int.from_bytes(digest, "big") >> 8 * len(digest) - SALT_BITS)
    stored = mechanism.keyed(secret, b"stored\0" + name)
    iterations = decoy.iterations.get(mechanism, MIN_ITERATIONS)
    return ScramCredential(salt, stored, mechanism.keyed(secret, b"server\0" + name), iterations)


def usual_iterations(
    records: Iterable[UserScramCredentialRecord],
) -> Mapping[ScramMechanism, int]:
    """For each mechanism the number of iterations that most of its credentials have, the lower of
    two equally common ones.

    Not one number for all: Kafka's documentation gives a user 8192 iterations for SCRAM-SHA-256 and
    the default for SCRAM-SHA-512. Reads all credentials, so it is called after changes and not for
    every client.
    """
    counts = Counter(
        (record.mechanism, record.iterations)
        for record in records
        if record.iterations >= MIN_ITERATIONS
    )
    usual_last = sorted(counts, key=lambda each: (counts[each], -each[1]))
    found = dict(usual_last)
    return {each: found[each.number] for each in ScramMechanism if each.number in found}


def salt_from(number: int) -> bytes:
    """The salt of a number with `SALT_BITS` random bits: its digits in base 36.

    The form of stock `kafka-configs` and `--add-scram`. All salts have to have it, or an unknown
    user could be recognized by its salt.
    """
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _BASE_36[digit] + digits
    return digits.encode()
