"""The initial corpus of fuzzing: valid messages of every API and version, valid batches and snapshots.

Owns the corpus; the messages are those of the codec tests (`wire_messages`). The same in every run.
"""

import functools
from pathlib import Path
from uuid import UUID

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorum_node.protocol.apis import API_VERSIONS
from quorum_node.records.batches import encode_batch, encode_values
from quorum_node.records.control import KRaftVersion, LeaderChange, VotersRecord, encode_control
from quorum_node.records.identity import Endpoint, ReplicaKey, Voter
from quorum_node.records.metadata import encode_metadata
from quorum_node.records.snapshot_format import SnapshotBounds, encode_snapshot
from quorum_node.schema.codec import encode
from quorum_node.schema.schema import Message
from support.fuzz.security_entries import security_seeds
from support.fuzz.targets import ANY, REPAIR, SERVED, SNAPSHOT, TARGETS, chooser
from support.metadata_records import config
from support.wire_messages import messages

EXAMPLES = 6
VOTERS = VotersRecord(
    (Voter(ReplicaKey(1, UUID(int=1)), (Endpoint("CONTROLLER", "a", 9093),)),),
    cluster_id="cluster",
    initial_voters=3,
    tombstones=(ReplicaKey(2, UUID(int=2)),),
)
VALUES = [encode_metadata(config(2, "topic", f"name-{n}", "value" * n)) for n in range(5)]


def write(target: str, directory: Path) -> int:
    """The corpus of a target, one file an input; returns how many."""
    inputs = of(target)
    for number, data in enumerate(inputs):
        (directory / f"seed-{number:04}").write_bytes(data)
    return len(inputs)


@functools.cache
def of(target: str) -> list[bytes]:
    """The corpus of a target."""
    return _INPUTS[target]()


def _requests() -> list[bytes]:
    found = []
    for api, version in SERVED:
        tags = b"\0" if version >= api.flexible_since else b""
        head = chooser(api, version) + tags
        drawn = _drawn(messages(api.request, version))
        found += [head + encode(message, version) for message in drawn]
    return found


def _raw_requests() -> list[bytes]:
    found = []
    for seed in of("requests"):
        api, version = SERVED[int.from_bytes(seed[:2], "big")]
        head = api.key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\7\0\1x"
        found.append(head + seed[2:])
    return found


def _stream() -> list[bytes]:
    frames = [len(seed).to_bytes(4, "big") + seed for seed in of("raw-requests")]
    return [
        bytes([piece]) + b"".join(frames[start : start + 3])
        for start in range(0, len(frames), 40)
        for piece in (0, 6, 255)
    ]


def _responses() -> list[bytes]:
    found = []
    for api, version in SERVED:
        tagged = api is not API_VERSIONS and version >= api.flexible_since
        head = chooser(api, version) + (b"\0" if tagged else b"")
        drawn = _drawn(messages(api.response, version))
        found += [head + encode(message, version) for message in drawn]
    return found


def _log() -> list[bytes]:
    first = encode_batch(
        base_offset=0, leader_epoch=1, timestamp_ms=5, control=True,
        records=[encode_control(r) for r in (_LEADER, KRaftVersion(1), VOTERS)],
    )  # fmt: skip
    second = encode_values(base_offset=3, leader_epoch=1, timestamp_ms=6, values=VALUES)
    whole = first + second
    pieces = (b"", first, whole, whole[:-1], whole + b"\0" * 600, whole[: len(first) + 70])
    return [bytes([flag]) + piece for piece in pieces for flag in (0, REPAIR)]


def _snapshot() -> list[bytes]:
    found = []
    for bounds in (SnapshotBounds(5), SnapshotBounds(5, 1), SnapshotBounds(5, 1, VOTERS)):
        for values in ([], VALUES):
            whole = b"".join(encode_snapshot(SNAPSHOT, bounds, values))
            found += [whole, whole[:-3], whole + b"\0"]
    return [bytes([flag]) + piece for piece in found for flag in (0, REPAIR)]


def _any() -> list[bytes]:
    return [bytes([number]) + seed for number, name in enumerate(TARGETS) for seed in of(name)]


_LEADER = LeaderChange(1, (ReplicaKey(1, UUID(int=1)),), (ReplicaKey(1, UUID(int=1)),))
_INPUTS = {
    "requests": _requests,
    "raw-requests": _raw_requests,
    "stream": _stream,
    "responses": _responses,
    "log": _log,
    "snapshot": _snapshot,
    "security": security_seeds,
    ANY: _any,
}


def _drawn(strategy: st.SearchStrategy[Message]) -> list[Message]:
    found: list[Message] = []

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(message: Message) -> None:
        found.append(message)

    draw()
    return found
