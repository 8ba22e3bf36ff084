"""Credentials: from a password, from a record, and in the place of one that there is not. PURE."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from quorum_node.records.metadata import UserScramCredentialRecord
from quorum_node.security.scram.mechanism import MIN_ITERATIONS, ScramMechanism

_BASE_36 = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What is kept of a password. The keys are never shown."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    def record(self, user: str, mechanism: ScramMechanism) -> UserScramCredentialRecord:
        """As it stands in the log."""
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
    """A new credential. Takes milliseconds of CPU on purpose."""
    salted = mechanism.salted_password(password, salt, iterations)
    return made_from_salted_password(mechanism, salted, salt, iterations)


def made_from_salted_password(
    mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """The same where a client has done the salting."""
    stored, server = mechanism.stored_key(salted), mechanism.server_key(salted)
    return ScramCredential(salt, stored, server, iterations)


def usable_credential(
    mechanism: ScramMechanism, record: UserScramCredentialRecord | None
) -> ScramCredential | None:
    """The credential of a record, unless it has fewer iterations or shorter keys than the mechanism wants."""
    if record is None or record.iterations < MIN_ITERATIONS or not record.salt:
        return None
    keys = record.stored_key, record.server_key
    if any(len(key) != mechanism.key_bytes for key in keys):
        return None
    return ScramCredential(record.salt, *keys, record.iterations)


@dataclass(frozen=True, slots=True)
class Decoy:
    """What credentials of users that there are not are made from.

    `secret`: the same on every node and after every restart, else asking twice would tell; not known to clients.
    `iterations`: those that the credentials of the quorum usually have, else a real user would stand out.
    """

    secret: bytes = field(repr=False)
    iterations: int = MIN_ITERATIONS


def made_up_credential(mechanism: ScramMechanism, user: str, decoy: Decoy) -> ScramCredential:
    """One that no password opens: nobody knows a key that hashes to the stored one.

    The same user gets the same salt each time, as a real one would.
    """
    secret = decoy.secret
    name = mechanism.sasl_name.encode() + b"\0" + user.encode()
    salt = _as_kafka_makes_salts(mechanism.keyed(secret, b"salt\0" + name))
    stored = mechanism.keyed(secret, b"stored\0" + name)
    return ScramCredential(
        salt, stored, mechanism.keyed(secret, b"server\0" + name), decoy.iterations
    )


def usual_iterations(records: Iterable[UserScramCredentialRecord]) -> int:
    """Those that most credentials have, the fewer of two equally common ones: what a decoy should show.

    Reads all of them, so it is asked when they have changed and not for every client.
    """
    counts = Counter(record.iterations for record in records)
    if not counts:
        return MIN_ITERATIONS
    return min(counts, key=lambda iterations: (-counts[iterations], iterations))


def _as_kafka_makes_salts(digest: bytes) -> bytes:
    """130 bits as a number to the base 36: what `kafka-configs` and `--add-scram` take for a salt."""
    number, digits = int.from_bytes(digest[:17], "big") >> 6, ""
    while number:
        number, digit = divmod(number, 36)
        digits = _BASE_36[digit] + digits
    return digits.encode()
