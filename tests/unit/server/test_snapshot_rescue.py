"""A damaged snapshot without which a replica can't start: downloaded again from the leader, or a failed disk."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest

from quorum_node.host_port import HostPort
from quorum_node.protocol.apis import FETCH_SNAPSHOT
from quorum_node.protocol.fetch_snapshot import FetchSnapshotRequest
from quorum_node.protocol.frames import SIZE_BYTES, decode_request, encode_response, read_size
from quorum_node.raft import messages as raft
from quorum_node.raft.errors import RaftError
from quorum_node.raft.messages import CurrentLeader
from quorum_node.raft.quorum_state import QuorumState
from quorum_node.records.identity import Endpoint, ReplicaKey, Voter
from quorum_node.records.snapshot_format import SnapshotBounds, encode_snapshot
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.server.starting import snapshot_rescue
from quorum_node.server.starting.snapshot_rescue import fetch_again
from quorum_node.server.wire import snapshots
from quorum_node.server.wire.instant import Instant
from quorum_node.storage.partition_directory import SnapshotLost
from quorum_node.storage.snapshots import SnapshotStore

ID = SnapshotId(100, 3)
DATA = b"".join(encode_snapshot(ID, SnapshotBounds(5), [b"value" * 100] * 50))
EPOCH = 7
Answer = Callable[[raft.FetchSnapshotRequest], raft.FetchSnapshotResponse]


def no_clock() -> Instant:
    raise AssertionError("only DescribeQuorum reports times")


@contextmanager
def serving(answer: Answer) -> Iterator[HostPort]:
    """A replica that supports only FetchSnapshot."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stopped = threading.Event()

        def serve() -> None:
            while not stopped.is_set():
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, connection.makefile("rb") as stream:
                    size = read_size(stream.read(SIZE_BYTES), 1 << 20)
                    request = decode_request(stream.read(size))
                    body = request.body
                    assert isinstance(body, FetchSnapshotRequest)
                    ((_, wanted),) = snapshots.FETCH_SNAPSHOT.split(body)
                    assert isinstance(wanted, raft.FetchSnapshotRequest)
                    reply = snapshots.FETCH_SNAPSHOT.join(body, [answer(wanted)], no_clock)
                    connection.sendall(
                        encode_response(
                            FETCH_SNAPSHOT, request.version, request.correlation_id, reply
                        )
                    )

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield HostPort("127.0.0.1", listener.getsockname()[1])
        finally:
            stopped.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def leader(data: bytes = DATA) -> Answer:
    def answer(request: raft.FetchSnapshotRequest) -> raft.FetchSnapshotResponse:
        me = CurrentLeader(1, EPOCH)
        assert request.replica == ReplicaKey(-1), "the request counts as one of a replica"
        if request.current_leader_epoch != EPOCH:
            return raft.FetchSnapshotResponse(RaftError.FENCED_LEADER_EPOCH, me, ID)
        if request.snapshot_id != ID:
            return raft.FetchSnapshotResponse(RaftError.SNAPSHOT_NOT_FOUND, me, ID)
        part = data[request.position : request.position + 1000]
        return raft.FetchSnapshotResponse(RaftError.NONE, me, ID, len(data), request.position, part)

    return answer


def follower(of: HostPort) -> Answer:
    endpoint = Endpoint("CONTROLLER", of.host, of.port)

    def answer(request: raft.FetchSnapshotRequest) -> raft.FetchSnapshotResponse:
        named = CurrentLeader(1, EPOCH, endpoint)
        return raft.FetchSnapshotResponse(RaftError.NOT_QUORUM_LEADER, named, ID)

    return answer


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_rescue, "_WINDOW_SECONDS", 0.4)
    monkeypatch.setattr(snapshot_rescue, "_PAUSE_SECONDS", 0.05)


def lost(directory: Path, *voters: HostPort) -> SnapshotLost:
    """The snapshot was set aside; the log begins at 90."""
    directory.mkdir(exist_ok=True)
    (directory / (ID.file_name + ".corrupt")).write_bytes(b"?")
    (directory / (SnapshotId(80, 3).file_name + ".corrupt")).write_bytes(b"older than the log")
    entries = tuple(
        Voter(ReplicaKey(n, UUID(int=n + 1)), (Endpoint("CONTROLLER", v.host, v.port),))
        for n, v in enumerate(voters)
    )
    state = QuorumState(leader_epoch=5, cluster_id="c", current_voters=entries)
    return SnapshotLost("the log begins at 90.", 0, directory, 90, state)


@pytest.mark.requirement("K853-08")
def test_snapshot_is_fetched_from_the_leader_named_by_another_node(tmp_path: Path) -> None:
    with serving(leader()) as leads, serving(follower(leads)) as follows:
        fetch_again(lost(tmp_path), [follows])
    assert SnapshotStore(tmp_path).ids() == (ID,)
    assert (tmp_path / ID.file_name).read_bytes() == DATA


def test_voters_of_quorum_state_are_queried_as_well(tmp_path: Path) -> None:
    with serving(leader()) as leads:
        fetch_again(lost(tmp_path, leads), [])
    assert SnapshotStore(tmp_path).ids() == (ID,)


@pytest.mark.parametrize(
    "data", [DATA[:-1], DATA + b"x", DATA.replace(b"valuevalue", b"VALUEvalue")]
)
def test_damaged_copy_is_not_accepted(tmp_path: Path, data: bytes) -> None:
    with serving(leader(data)) as leads, pytest.raises(SnapshotLost, match="begins at 90"):
        fetch_again(lost(tmp_path), [leads])
    assert SnapshotStore(tmp_path).ids() == ()


def test_rescue_fails_if_no_replica_has_the_snapshot(tmp_path: Path) -> None:
    def gone(request: raft.FetchSnapshotRequest) -> raft.FetchSnapshotResponse:
        me = CurrentLeader(1, request.current_leader_epoch)
        return raft.FetchSnapshotResponse(RaftError.SNAPSHOT_NOT_FOUND, me, ID)

    with serving(gone) as leads, pytest.raises(SnapshotLost):
        fetch_again(lost(tmp_path), [leads])
    with pytest.raises(SnapshotLost):
        fetch_again(lost(tmp_path), [HostPort("127.0.0.1", 1)])


def test_server_with_nonsensical_answers_does_not_prevent_the_rescue(tmp_path: Path) -> None:
    """Newer epochs without end, a leader whose host can't be resolved, and parts of another snapshot."""
    other = SnapshotId(101, 3)

    def epochs(request: raft.FetchSnapshotRequest) -> raft.FetchSnapshotResponse:
        newer = CurrentLeader(1, request.current_leader_epoch + 1)
        return raft.FetchSnapshotResponse(RaftError.UNKNOWN_LEADER_EPOCH, newer, ID)

    def nowhere(request: raft.FetchSnapshotRequest) -> raft.FetchSnapshotResponse:
        place = CurrentLeader(1, 7, Endpoint("CONTROLLER", "a" * 70, 1))
        return raft.FetchSnapshotResponse(RaftError.NOT_QUORUM_LEADER, place, ID)

    def foreign(request: raft.FetchSnapshotRequest) -> raft.FetchSnapshotResponse:
        me = CurrentLeader(1, request.current_leader_epoch)
        return raft.FetchSnapshotResponse(RaftError.NONE, me, other, 1 << 60, 0, b"x" * 10)

    with (
        serving(epochs) as first,
        serving(nowhere) as second,
        serving(foreign) as third,
        serving(leader()) as leads,
    ):
        fetch_again(lost(tmp_path), [first, second, third, leads])
    assert SnapshotStore(tmp_path).ids() == (ID,)


def test_nothing_is_requested_without_a_snapshot_id(tmp_path: Path) -> None:
    missing = SnapshotLost("gone", 0, tmp_path, 90, QuorumState())
    with pytest.raises(SnapshotLost):
        fetch_again(missing, [HostPort("127.0.0.1", 1)])
