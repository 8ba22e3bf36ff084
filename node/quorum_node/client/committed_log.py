"""Reads the committed log of a running quorum as bytes: Fetch up to the high watermark, and FetchSnapshot.

Owns finding the leader, following its changes, and retries until a deadline. The reader has no replica id, so the
leader keeps no state about it and no commit waits for it. Its fetches state the leader's own epoch as the last
fetched one, so a leader of this software or of stock Kafka serves any offset of its log. Must not know the content of
records.
Source: KIP-595, "Fetch"; KIP-630, "FetchSnapshot"; versions as shipped in Kafka 4.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID, uuid4

from quorum_node.client.connections import Address, Connections, shown
from quorum_node.client.describe import METADATA_TOPIC, describe_cluster, describe_quorum
from quorum_node.client_tls import ClientTls
from quorum_node.host_port import parse_host_port
from quorum_node.protocol import apis
from quorum_node.protocol import fetch as wire
from quorum_node.protocol import fetch_snapshot as snapshots
from quorum_node.protocol.describe import QuorumNode
from quorum_node.protocol.errors import ErrorCode, name_of
from quorum_node.records.batches import Batch, CorruptBatch, split_batches
from quorum_node.records.snapshot_id import SnapshotId

_TOPIC_ID = UUID(int=1)
_FETCH_VERSION = 17
_SNAPSHOT_VERSION = 1
_ADMIN_LISTENER = "ADMIN"
_MAX_BYTES = 4 << 20
_ANSWER_SECONDS = 10.0
_RIGHTS = "reading the log needs a certificate of the role archiver or admin, or the right to read __cluster_metadata"
_PAUSE_SECONDS = 0.2
_OBSERVER_ID = 0x7FFFFFFF
"""Only replicas are referred to a snapshot. This id is unused, and a leader forgets such an observer after a while."""
_FENCED = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH)
_GONE = (ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE)
_ELSEWHERE = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.BROKER_NOT_AVAILABLE)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Committed:
    """Offsets from `start_offset` on and below `end_offset` are committed on the leader."""

    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class VoterPlace:
    """`admin`: its admin API, if it has registered one. `log_end_offset`: as its leader knows it."""

    id: int
    leads: bool
    log_end_offset: int
    admin: Address | None


class CommittedLogError(Exception):
    """The read failed; the message names the server and the reason."""


class SnapshotDeleted(CommittedLogError):
    """The present leader does not have this snapshot (any more)."""


class _Retry(Exception):
    """This server can't serve the request, or not now."""


class CommittedLog:
    """To be closed by the caller. `bootstrap`: controller listeners; one has to respond. Every call may raise `error`."""

    error: type[CommittedLogError] = CommittedLogError
    gone: type[SnapshotDeleted] = SnapshotDeleted

    def __init__(
        self,
        bootstrap: Sequence[Address],
        timeout_seconds: float = 30.0,
        *,
        client_id: str,
        tls: ClientTls | None = None,
    ) -> None:
        self._known = list(bootstrap)
        self._timeout_seconds = timeout_seconds
        self._connections = Connections(client_id, tls)
        self._secured = tls is not None
        self._epoch = 0

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()

    @property
    def leader(self) -> str:
        """The server that responded last."""
        return shown(self._known[0])

    def cluster_id(self) -> str:
        """The cluster id, from any server."""
        return self._on_leader(self._describe_cluster)

    def committed(self) -> Committed:
        """The present range of committed offsets."""
        part = self._on_leader(lambda address: self._fetch(address, 0, max_bytes=1))
        start = max(part.log_start_offset, 0)
        if start == 0 and part.snapshot_id.epoch >= 0 and not self._begins_with_more():
            start = 1
        return Committed(start, part.high_watermark)

    def _begins_with_more(self) -> bool:
        """Whether the batch of the first offset contains the second one as well.

        A stock leader with a snapshot never serves the first offset itself, only whole batches.
        """
        part = self._on_leader(lambda address: self._fetch(address, 1, max_bytes=1))
        batches = split_batches(part.records or b"")[0]
        return bool(batches) and batches[0].header.base_offset == 0

    def read(self, offset: int, end_offset: int, max_bytes: int = _MAX_BYTES) -> list[Batch]:
        """Whole batches from the one with `offset` on; the last one may end after `end_offset`.

        `end_offset` must be committed. At least one batch, even if it is larger than `max_bytes`. Raises `error` if the log no longer
        has the offset, or if no server answered for which `end_offset` is committed.
        """

        def fetch(address: Address) -> wire.FetchResponsePartition:
            return self._fetch_committed(address, offset, end_offset, max_bytes)

        def fetch_next(address: Address) -> wire.FetchResponsePartition:
            return self._fetch_committed(address, 1, end_offset, max_bytes)

        part = self._on_leader(fetch)
        if offset == 0 and part.log_start_offset <= 0 <= part.snapshot_id.epoch:
            part = self._on_leader(fetch_next)
        if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE or part.snapshot_id.epoch >= 0:
            raise self.error(
                f"the log of {self.leader} has no offset {offset}: it begins at {part.log_start_offset}"
                f" and is committed up to {part.high_watermark}; earlier records are in a snapshot"
            )
        try:
            batches = split_batches(part.records or b"")[0]
        except CorruptBatch as error:
            raise self.error(f"{self.leader}, after offset {offset}: {error}") from None
        if batches and not batches[0].header.base_offset <= offset < batches[0].header.end_offset:
            found = batches[0].header.base_offset
            raise self.error(f"{self.leader} returned offset {found} instead of {offset}")
        return [each for each in batches if each.header.base_offset < end_offset]

    def snapshot_part(self, id: SnapshotId, position: int) -> tuple[bytes, int]:
        """Bytes of a snapshot from a position on, and its total size. Raises `gone`, too."""
        part = self._on_leader(lambda address: self._fetch_snapshot(address, id, position))
        if part.error_code in _GONE:
            raise self.gone(f"{self.leader} has no snapshot {id}: {name_of(part.error_code)}")
        if part.error_code:
            raise self.error(f"{self.leader}, snapshot {id}: {name_of(part.error_code)}")
        return bytes(part.unaligned_records), part.size

    def newest_snapshot(self) -> SnapshotId | None:
        """The snapshot to which a replica with an empty log is referred; None if the log is complete."""
        part = self._on_leader(lambda address: self._fetch(address, 0, as_replica=True))
        found = part.snapshot_id
        return SnapshotId(found.end_offset, found.epoch) if found.epoch >= 0 else None

    def voters(self) -> tuple[VoterPlace, ...]:
        """The voters, by id; none if the leader does not tell them, for example because this needs a right."""
        return self._on_leader(self._describe_quorum)

    # -- requests

    def _fetch(
        self,
        address: Address,
        offset: int,
        *,
        max_bytes: int = _MAX_BYTES,
        as_replica: bool = False,
    ) -> wire.FetchResponsePartition:
        partition = wire.FetchPartition(
            partition=0,
            current_leader_epoch=self._epoch,
            fetch_offset=offset,
            last_fetched_epoch=0 if as_replica else self._epoch,
            partition_max_bytes=max_bytes,
            replica_directory_id=uuid4() if as_replica else None,
        )
        request = wire.FetchRequest(
            replica_state=wire.ReplicaState(replica_id=_OBSERVER_ID if as_replica else -1),
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=max_bytes,
            topics=(wire.FetchTopic(topic_id=_TOPIC_ID, partitions=(partition,)),),
        )
        answer = self._connections.ask(
            address, apis.FETCH, _FETCH_VERSION, request, wire.FetchResponse, _ANSWER_SECONDS
        )
        if answer.error_code or not answer.responses:
            raise _Retry(_refused(address, answer.error_code))
        part = answer.responses[0].partitions[0]
        endpoints = [(each.node_id, (each.host, each.port)) for each in answer.node_endpoints]
        self._follow(address, part.error_code, part.current_leader, endpoints)
        if part.high_watermark < 0 and part.error_code == ErrorCode.NONE:
            raise _Retry("a new leader has not committed a record of its epoch yet")
        return part

    def _fetch_committed(
        self, address: Address, offset: int, end_offset: int, max_bytes: int
    ) -> wire.FetchResponsePartition:
        """Fetch from a server for which `end_offset` is committed. Raises _Retry.

        A stock leader returns its whole log. If it was deposed and does not know it yet, its last records may not be committed,
        and other records may be committed at their offsets. Its high watermark is below them.
        """
        part = self._fetch(address, offset, max_bytes=max_bytes)
        if 0 <= part.high_watermark < end_offset:
            self._ask_later(address)
            raise _Retry(
                f"{shown(address)} has committed records up to {part.high_watermark}, not {end_offset}"
            )
        return part

    def _describe_cluster(self, address: Address) -> str:
        answer = describe_cluster(self._connections, address, _ANSWER_SECONDS)
        if answer.error_code or not answer.cluster_id:
            raise _Retry(_refused(address, answer.error_code))
        return answer.cluster_id

    def _describe_quorum(self, address: Address) -> tuple[VoterPlace, ...]:
        answer = describe_quorum(self._connections, address, _ANSWER_SECONDS)
        if answer.error_code or not answer.topics:
            return ()
        part = answer.topics[0].partitions[0]
        if part.error_code:
            return ()
        admins = {each.node_id: _admin_of(each) for each in answer.nodes}
        found = {
            each.replica_id: VoterPlace(
                each.replica_id,
                each.replica_id == part.leader_id,
                each.log_end_offset,
                admins.get(each.replica_id),
            )
            for each in part.current_voters
        }
        return tuple(found[each] for each in sorted(found))

    def _fetch_snapshot(
        self, address: Address, id: SnapshotId, position: int
    ) -> snapshots.FetchSnapshotResponsePartition:
        partition = snapshots.FetchSnapshotPartition(
            partition=0,
            current_leader_epoch=self._epoch,
            snapshot_id=snapshots.SnapshotIdentity(end_offset=id.end_offset, epoch=id.epoch),
            position=position,
        )
        topic = snapshots.FetchSnapshotTopic(name=METADATA_TOPIC, partitions=(partition,))
        request = snapshots.FetchSnapshotRequest(max_bytes=_MAX_BYTES, topics=(topic,))
        answer = self._connections.ask(
            address,
            apis.FETCH_SNAPSHOT,
            _SNAPSHOT_VERSION,
            request,
            snapshots.FetchSnapshotResponse,
            _ANSWER_SECONDS,
        )
        if answer.error_code or not answer.topics:
            raise _Retry(_refused(address, answer.error_code))
        part = answer.topics[0].partitions[0]
        endpoints = [(each.node_id, (each.host, each.port)) for each in answer.node_endpoints]
        self._follow(address, part.error_code, part.current_leader, endpoints)
        return part

    def _follow(
        self,
        address: Address,
        code: int,
        leader: wire.LeaderIdAndEpoch,
        endpoints: Sequence[tuple[int, Address]],
    ) -> None:
        """Learn epoch and leader from a response. Raises _Retry if the server is not the leader."""
        self._epoch = max(self._epoch, leader.leader_epoch)
        for node_id, endpoint in endpoints:
            if node_id == leader.leader_id:
                self._prefer(endpoint)
        if code in _FENCED:
            raise _Retry(f"the epoch is {self._epoch}")
        if code in _ELSEWHERE:
            if not endpoints:
                self._ask_later(address)
            raise _Retry(f"{shown(address)} does not lead")

    def _on_leader(self, attempt: Callable[[Address], T]) -> T:
        deadline = time.monotonic() + self._timeout_seconds
        fenced_before = -1
        while True:
            address, epoch = self._known[0], self._epoch
            try:
                return attempt(address)
            except _Retry as error:
                why = str(error)
            except OSError as error:
                why = f"{shown(address)}: {error}{self._advice(error)}"
                self._known.append(self._known.pop(0))
            if time.monotonic() > deadline:
                raise self.error(
                    f"no leader answered within {self._timeout_seconds:.0f} s; last error: {why}"
                )
            # After a new epoch the same server is asked again at once.
            if self._epoch == epoch or epoch == fenced_before:
                time.sleep(_PAUSE_SECONDS)
            fenced_before = epoch

    def _advice(self, error: OSError) -> str:
        """What to check after a server has closed the connection, which is how it refuses a client."""
        if not isinstance(error, ConnectionError) or isinstance(error, ConnectionRefusedError):
            return ""
        if self._secured:
            return " (if it refuses the certificate, its log says why)"
        return " (if its listener uses TLS, specify --tls or --command-config)"

    def _ask_later(self, address: Address) -> None:
        """Ask the other servers before this one."""
        self._known.append(self._known.pop(self._known.index(address)))

    def _prefer(self, address: Address) -> None:
        if address in self._known:
            self._known.remove(address)
        self._known.insert(0, address)


def parsed_addresses(text: str) -> list[Address]:
    """Parse `host:port` of controller listeners, separated by commas. Raises CommittedLogError."""
    found = []
    for each in text.split(","):
        try:
            address = parse_host_port(each.strip())
        except ValueError as error:
            raise CommittedLogError(str(error)) from None
        found.append((address.host, address.port))
    return found


def _admin_of(node: QuorumNode) -> Address | None:
    found = (each for each in node.listeners if each.name == _ADMIN_LISTENER)
    return next(((each.host, each.port) for each in found), None)


def _refused(address: Address, code: int) -> str:
    """What a server answered instead of the response, and what is needed."""
    denied = code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return f"{shown(address)} answers {name_of(code)}" + (f": {_RIGHTS}" if denied else "")
