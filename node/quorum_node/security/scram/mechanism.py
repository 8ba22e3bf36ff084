"""The two mechanisms and their computations. PURE.

Source: RFC 5802, section 3; Kafka's codes and limits (KIP-554).
"""

import hashlib
import hmac
from enum import Enum

MIN_ITERATIONS = 4_096
MAX_ITERATIONS = 16_384


class ScramMechanism(Enum):
    """`number` in records and requests; `hash_name` as Python calls it."""

    SHA_256 = (1, "sha256")
    SHA_512 = (2, "sha512")

    def __init__(self, number: int, hash_name: str) -> None:
        self.number = number
        self.hash_name = hash_name

    @property
    def sasl_name(self) -> str:
        """As in `sasl.enabled.mechanisms`."""
        return f"SCRAM-SHA-{self.hash_name[3:]}"

    @property
    def key_bytes(self) -> int:
        """The length of every key of the mechanism."""
        return hashlib.new(self.hash_name).digest_size

    def hashed(self, data: bytes) -> bytes:
        """H of the RFC."""
        return hashlib.new(self.hash_name, data).digest()

    def keyed(self, key: bytes, data: bytes) -> bytes:
        """HMAC of the RFC."""
        return hmac.digest(key, data, self.hash_name)

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Hi of the RFC, with the password in plain UTF-8: Kafka does not normalize it."""
        return hashlib.pbkdf2_hmac(self.hash_name, password.encode(), salt, iterations)

    def stored_key(self, salted_password: bytes) -> bytes:
        """Key that verifies a client's proof."""
        return self.hashed(self.keyed(salted_password, b"Client Key"))

    def server_key(self, salted_password: bytes) -> bytes:
        """Key of the server's proof."""
        return self.keyed(salted_password, b"Server Key")


MECHANISMS = {each.sasl_name: each for each in ScramMechanism}
"""By their SASL names."""
MECHANISMS_BY_NUMBER = {each.number: each for each in ScramMechanism}
"""By their numbers on the wire."""
