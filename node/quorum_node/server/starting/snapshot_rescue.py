"""At the start, if the only snapshot is damaged and the log before it was deleted: downloads that snapshot again.

Owns finding the leader and the download. Must not know the next steps: the directory is then opened as if the snapshot had never been
damaged.

Replicas that write a snapshot of the same id write the same bytes, and a downloaded one is a copy. So while the leader still has that id,
the state can be restored and the log is not touched. The replica takes no part in the quorum meanwhile. If no node has the snapshot
within the time limit, the disk counts as failed: its log may contain records that the replica acknowledged as a voter, so it must never
start again empty.
"""

import time
from collections.abc import Sequence
from pathlib import Path

import structlog

from quorum_node.host_port import HostPort
from quorum_node.protocol.apis import FETCH_SNAPSHOT
from quorum_node.protocol.frames import decode_response, encode_request, read_frame
from quorum_node.raft import messages as raft
from quorum_node.raft.config import CONTROLLER
from quorum_node.raft.errors import RaftError
from quorum_node.raft.quorum_state import QuorumState
from quorum_node.records.identity import ReplicaKey
from quorum_node.records.snapshot_format import CorruptSnapshot
from quorum_node.records.snapshot_id import SnapshotId, parse_snapshot_name
from quorum_node.schema.schema import MalformedMessage, Message
from quorum_node.server.starting.startup_connections import Dial, dial_in_clear_text
from quorum_node.server.wire import snapshots
from quorum_node.storage.partition_directory import SnapshotLost
from quorum_node.storage.snapshots import CORRUPT_SUFFIX, SnapshotStore

_LOG = structlog.get_logger("quorum_node")
_WINDOW_SECONDS = 30.0
_PAUSE_SECONDS = 0.5
_ONE_SECONDS = 5.0
_MAX_HOPS = 3
"""How often a download follows a server's reference to another leader."""
_MAX_EPOCHS = 10
"""How many newer epochs one server may name, so that it can't keep this node from asking the next server."""
_VERSION = 1
_PART_BYTES = 4 << 20
_MAX_ANSWER_BYTES = _PART_BYTES + (1 << 20)
_READER = ReplicaKey(-1)
"""The replica id of a consumer: such a fetch acknowledges nothing."""
_ASK_WITH_EPOCH = (RaftError.FENCED_LEADER_EPOCH, RaftError.UNKNOWN_LEADER_EPOCH)


def fetch_again(
    lost: SnapshotLost, servers: Sequence[HostPort], dial: Dial = dial_in_clear_text
) -> None:
    """Download a lost snapshot. Raises `lost` itself if no node has it in time."""
    ids = _wanted(lost.path, lost.base_offset)
    voters = [voter.endpoint(CONTROLLER) for voter in lost.state.current_voters]
    known = [*servers, *(HostPort(each.host, each.port) for each in voters if each is not None)]
    _LOG.warning(f"{lost} Asking the quorum for snapshot {', '.join(map(str, ids))} again")
    store = SnapshotStore(lost.path)
    deadline = time.monotonic() + _WINDOW_SECONDS
    told: set[str] = set()
    while ids and time.monotonic() < deadline:
        for server in dict.fromkeys(known):
            for wanted in ids:
                problem = _fetch(store, lost.number, wanted, server, lost.state, dial)
                if problem is None:
                    _LOG.info(f"fetched snapshot {wanted} again; the log continues from it")
                    return
                if problem not in told:
                    told.add(problem)
                    _LOG.info(f"snapshot {wanted} can't be fetched from {server}: {problem}")
        time.sleep(_PAUSE_SECONDS)
    raise lost


def _wanted(directory: Path, base_offset: int) -> list[SnapshotId]:
    """Damaged snapshots that reach the log, newest first."""
    found = [
        parse_snapshot_name(path.name.removesuffix(CORRUPT_SUFFIX))
        for path in directory.glob(f"*{CORRUPT_SUFFIX}")
    ]
    reaching = [each for each in found if each is not None and each.end_offset >= base_offset]
    return sorted(reaching, reverse=True)


def _fetch(
    store: SnapshotStore,
    number: int,
    id: SnapshotId,
    server: HostPort,
    state: QuorumState,
    dial: Dial,
) -> str | None:
    """Download the complete snapshot from this server, or from the leader that it names. Returns the reason if that failed."""
    store.drop_partial(id)
    epoch, position, hops, epochs = state.leader_epoch, 0, 0, 0
    try:
        while True:
            body = _question(number, id, epoch, position, state.cluster_id)
            answer = _ask(server, number, body, dial)
            leader = answer.leader
            if answer.error in _ASK_WITH_EPOCH and leader.leader_epoch > epoch:
                epoch = leader.leader_epoch
                epochs += 1
                if epochs > _MAX_EPOCHS:
                    return f"it names another epoch each time, now {epoch}"
            elif answer.error is RaftError.NOT_QUORUM_LEADER and leader.endpoint is not None:
                named = HostPort(leader.endpoint.host, leader.endpoint.port)
                hops += 1
                if hops > _MAX_HOPS:
                    return f"it is not the leader; it names {named}"
                server = named
            elif answer.error is not RaftError.NONE or not answer.data:
                return answer.error.value
            elif (answer.snapshot_id, answer.position) != (id, position):
                return f"it sent a part of {answer.snapshot_id} at byte {answer.position}, not at {position}"
            else:
                store.append_partial(id, position, answer.data)
                position += len(answer.data)
                if position >= answer.size_bytes:
                    store.finish_partial(id, answer.size_bytes, answer.checksum)
                    return None
    except (OSError, ValueError, MalformedMessage, CorruptSnapshot) as error:
        return str(error)  # ValueError: an invalid host name, received from the server


def _question(
    number: int, id: SnapshotId, epoch: int, position: int, cluster_id: str | None
) -> Message:
    request = raft.FetchSnapshotRequest(cluster_id, _READER, epoch, id, position, _PART_BYTES)
    return snapshots.FETCH_SNAPSHOT.to_wire([(number, request)], _VERSION)


def _ask(server: HostPort, number: int, body: Message, dial: Dial) -> raft.FetchSnapshotResponse:
    frame = encode_request(FETCH_SNAPSHOT, _VERSION, 1, "snapshot-rescue", body)
    with dial(server, _ONE_SECONDS) as connection:
        connection.sendall(frame)
        answer = read_frame(connection.recv, _MAX_ANSWER_BYTES)
    decoded = decode_response(FETCH_SNAPSHOT, _VERSION, answer)
    (found,) = snapshots.FETCH_SNAPSHOT.from_wire(decoded, [number])
    assert isinstance(found, raft.FetchSnapshotResponse)
    return found
