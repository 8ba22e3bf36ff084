"""Identity and addresses of replicas: replica keys, endpoints, voters.

Owns the types that identify members of a quorum (votes, fetches, voter sets, describe) and the text
form of UUIDs. Must not know how they are transported.
Source: KIP-853, "Replica UUID" and "VotersRecord"; text form: Kafka's `Uuid.toString`.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from uuid import UUID

from quorum_node.made_often import made_often
from quorum_node.schema.primitives import TaggedFields

UUID_TEXT_LENGTH = 22
KEEPS_TARGET_VOTERS = 1
"""A private feature: as leader the voter preserves target voters in new voters records."""


@made_often
@dataclass(frozen=True, slots=True, order=False)
class ReplicaKey:
    """Node id and replica UUID. A UUID of None is unknown (all zero on the wire) and equals no known one."""

    id: int
    uuid: UUID | None = None

    def __eq__(self, other: object) -> bool:
        # Compared many times with every fetch, mostly with the identical object: see `replica_key`.
        if self is other:
            return True
        if not isinstance(other, ReplicaKey):
            return NotImplemented
        return self.id == other.id and self.uuid == other.uuid

    def __hash__(self) -> int:
        # Hashed with every fetch; two keys with one id are rare.
        return self.id

    def __str__(self) -> str:
        return f"({self.id}, {'?' if self.uuid is None else uuid_text(self.uuid)})"


_MAX_KNOWN = 1024
_known: dict[int, ReplicaKey] = {}
"""The last requested key of each id."""


def replica_key(id: int, uuid: UUID | None) -> ReplicaKey:
    """ReplicaKey(id, uuid), as a shared object if the key was the last one of its id: for frequent use."""
    known = _known.get(id)
    if known is not None and known.uuid == uuid:
        return known
    if len(_known) >= _MAX_KNOWN:
        _known.clear()
    made = _known[id] = ReplicaKey(id, uuid)
    return made


@made_often
@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address of one listener of a voter."""

    name: str
    host: str
    port: int
    tagged_fields: TaggedFields = ()

    def __str__(self) -> str:
        return f"{self.name}://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Voter:
    """One entry of a voter set: key, listeners, supported range of kraft.version.

    `private_features` is ours: features beyond shipped Kafka (0: none known).
    """

    key: ReplicaKey
    endpoints: tuple[Endpoint, ...] = ()
    min_kraft_version: int = 0
    max_kraft_version: int = 1
    private_features: int = 0
    tagged_fields: TaggedFields = ()

    def endpoint(self, name: str) -> Endpoint | None:
        """The listener of that name, compared without case as Kafka does."""
        wanted = name.upper()
        return next((e for e in self.endpoints if e.name.upper() == wanted), None)


def uuid_text(uuid: UUID | None) -> str:
    """Kafka's 22 characters: URL-safe base64 without padding; None is the all-zero UUID."""
    data = bytes(16) if uuid is None else uuid.bytes
    return urlsafe_b64encode(data)[:UUID_TEXT_LENGTH].decode("ascii")


def parse_uuid(text: str) -> UUID:
    """The reverse of `uuid_text`.

    Raises ValueError on anything but 22 characters of URL-safe base64 for 16 bytes.
    """
    try:
        data = urlsafe_b64decode(text + "==")
    except ValueError:
        data = b""
    # Lenient decoding drops foreign characters, so the result is encoded again and compared.
    if len(data) != 16 or uuid_text(UUID(bytes=data)) != text:
        raise ValueError(f"not a UUID of {UUID_TEXT_LENGTH} base64url characters: {text!r}")
    return UUID(bytes=data)
