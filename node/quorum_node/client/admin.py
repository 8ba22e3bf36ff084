"""The admin client: describe and change a quorum from a Python program.

Owns how the leader is found and what is retried. Must not know sockets (`connections.py`).
Source: KIP-595, "Reassignment Admin Tools" and "How does the reassignment tool work internally" (K595-27):
1. DiscoverBrokers finds the leader, sent to any known server.
2. NOT_QUORUM_LEADER: the response may name the leader. Otherwise, after a pause, 1.
3. A timeout or a broken connection: 1, and the same request again. Repeating the same target is harmless. If a
repeated AddVoter finds the voter present, or a repeated RemoveVoter finds it absent, the first request was carried
out.
4. A leader in a lower epoch than one seen before is not used: another server is asked.
5. Any other error, such as a missing permission, is raised at once.
"""

import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from quorum_node.client.connections import Address, Connections, shown
from quorum_node.client.describe import METADATA_TOPIC, describe_cluster, describe_quorum
from quorum_node.client.errors import (
    AuthorizationFailed,
    NoLeader,
    RequestRefused,
)
from quorum_node.client.quorum_info import AlterQuorumInfo, QuorumInfo, VoterDescription
from quorum_node.client_sasl import ClientSasl
from quorum_node.client_tls import ClientTls
from quorum_node.host_port import parse_host_port
from quorum_node.protocol import alter_quorum as alter
from quorum_node.protocol import apis, scram, voters
from quorum_node.protocol import describe as desc
from quorum_node.protocol.api import Api
from quorum_node.protocol.discover_brokers import (
    CLIENT_ID,
    DiscoverBrokersRequest,
    DiscoverBrokersResponse,
)
from quorum_node.protocol.errors import ErrorCode, name_of
from quorum_node.records.identity import Endpoint, ReplicaKey
from quorum_node.schema.schema import Message
from quorum_node.security.scram.credential import SALT_BITS, salt_from
from quorum_node.security.scram.mechanism import MIN_ITERATIONS, ScramMechanism

M = TypeVar("M", bound=Message)
R = TypeVar("R")

_PAUSE_SECONDS = 0.1
_ATTEMPT_SECONDS = 5.0
_DESCRIBE_RIGHT = "describing a quorum needs the right DESCRIBE on the cluster"
_RETRIED = frozenset(
    {
        ErrorCode.NOT_QUORUM_LEADER,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


@dataclass(frozen=True, slots=True)
class _Leader:
    address: Address
    cluster_id: str


class _Retry(Exception):
    """This server can't serve the request, or not now."""


class QuorumAdminClient:
    """`bootstrap_servers`: controller listeners, host:port, one of which has to respond; in one text with commas, or several.

    `timeout_ms` limits every call, retries included. `tls`: for listeners with TLS (`client_tls.tls_of_folder`).
    `sasl`: for listeners where clients log in (`client_tls.security_of_command_config` has both). Calls raise
    ClientTlsError for files that can't be used, and AuthenticationFailed.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str],
        timeout_ms: int = 30_000,
        tls: ClientTls | None = None,
        sasl: ClientSasl | None = None,
    ) -> None:
        if isinstance(bootstrap_servers, str):
            bootstrap_servers = bootstrap_servers.split(",")
        self._known = [_address(server.strip()) for server in bootstrap_servers]
        if not self._known:
            raise ValueError("bootstrap_servers is empty: give host:port of a controller listener")
        self._timeout_seconds = timeout_ms / 1000
        self._connections = Connections("quorum-admin-client", tls, sasl)
        self._logs_in = sasl is not None
        self._newest: dict[tuple[str, int], int] = {}
        """Highest known leader epoch, by cluster id and partition. A leader of a lower epoch is outdated."""

    def __enter__(self) -> "QuorumAdminClient":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()

    def describe_quorum(self, partition: int = 0) -> QuorumInfo:
        """The quorum as its leader sees it: present and target voters, and observers."""

        def attempt(leader: _Leader, seconds: float) -> QuorumInfo:
            found = describe_quorum(self._connections, leader.address, seconds, partition)
            if not found.topics:
                _check(found.error_code, found.error_message or _DESCRIBE_RIGHT)
            one = found.topics[0].partitions[0]
            _check(one.error_code, one.error_message or "")
            return _quorum_info(one)

        return self._found(self._on_leader(partition, attempt))

    def set_password(
        self,
        user: str,
        password: str,
        mechanism: ScramMechanism = ScramMechanism.SHA_512,
        iterations: int = MIN_ITERATIONS,
    ) -> None:
        """Create a user of SASL/SCRAM, or set its password for one mechanism (KIP-554).

        The password does not leave this process. Existing connections of the user are closed.
        """
        salt = salt_from(secrets.randbits(SALT_BITS))
        change = scram.ScramCredentialUpsertion(
            name=user,
            mechanism=mechanism.number,
            iterations=iterations,
            salt=salt,
            salted_password=mechanism.salted_password(password, salt, iterations),
        )
        self._alter_users(
            scram.AlterUserScramCredentialsRequest(deletions=(), upsertions=(change,))
        )

    def delete_password(
        self, user: str, mechanism: ScramMechanism = ScramMechanism.SHA_512
    ) -> None:
        """Delete a user's password for this mechanism. Raises RequestRefused if there was none."""
        change = scram.ScramCredentialDeletion(name=user, mechanism=mechanism.number)
        self._alter_users(
            scram.AlterUserScramCredentialsRequest(deletions=(change,), upsertions=()),
            done=ErrorCode.RESOURCE_NOT_FOUND,
        )

    def _alter_users(
        self, request: scram.AlterUserScramCredentialsRequest, done: ErrorCode | None = None
    ) -> None:
        api, answer = apis.ALTER_USER_SCRAM_CREDENTIALS, scram.AlterUserScramCredentialsResponse

        def attempt(leader: _Leader, seconds: float) -> None:
            for each in self._ask(leader, api, 0, request, answer, seconds).results:
                _check(each.error_code, each.error_message or "")

        self._on_leader(0, attempt, done)

    def alter_quorum(
        self, new_voters: Iterable[int | ReplicaKey] | None, partition: int = 0
    ) -> AlterQuorumInfo:
        """Set the target voters, by id or by replica key; None cancels.

        Returns when the target is committed; `describe_quorum` shows the progress.
        """
        targets: tuple[alter.TargetVoter, ...] | None = None
        if new_voters is not None:
            targets = tuple(_target(voter) for voter in new_voters)

        def attempt(leader: _Leader, seconds: float) -> AlterQuorumInfo:
            part = alter.AlterQuorumRequestPartition(
                partition_index=partition, target_voters=targets
            )
            topic = alter.AlterQuorumRequestTopic(topic_name=METADATA_TOPIC, partitions=(part,))
            request = alter.AlterQuorumRequest(
                cluster_id=leader.cluster_id, topics=(topic,), timeout_ms=int(seconds * 900)
            )
            api, answer = apis.ALTER_QUORUM, alter.AlterQuorumResponse
            found = self._ask(leader, api, 0, request, answer, seconds)
            one = found.topics[0].partitions[0]
            for node in found.node_endpoints:
                if node.node_id == one.leader_id:
                    self._remember((node.host, node.port))
            _check(one.error_code, one.error_message)
            ids = None if targets is None else tuple(target.voter_id for target in targets)
            return AlterQuorumInfo(ids, one.voters_offset, one.voters_epoch, one.leader_id)

        return self._found(self._on_leader(partition, attempt))

    def add_voter(self, voter_id: int, directory_id: UUID, endpoints: Sequence[Endpoint]) -> None:
        """Make a running replica a voter; returns after the commit."""
        listeners = tuple(
            voters.VoterListener(name=each.name, host=each.host, port=each.port)
            for each in endpoints
        )

        def attempt(leader: _Leader, seconds: float) -> None:
            request = voters.AddRaftVoterRequest(
                cluster_id=leader.cluster_id,
                timeout_ms=int(seconds * 900),
                voter_id=voter_id,
                voter_directory_id=directory_id,
                listeners=listeners,
            )
            api, answer = apis.ADD_RAFT_VOTER, voters.AddRaftVoterResponse
            found = self._ask(leader, api, 0, request, answer, seconds)
            _check(found.error_code, found.error_message or "")

        self._on_leader(0, attempt, done=ErrorCode.DUPLICATE_VOTER)

    def remove_voter(self, voter_id: int, directory_id: UUID) -> None:
        """Make a voter an observer; returns after the commit."""

        def attempt(leader: _Leader, seconds: float) -> None:
            request = voters.RemoveRaftVoterRequest(
                cluster_id=leader.cluster_id, voter_id=voter_id, voter_directory_id=directory_id
            )
            api, answer = apis.REMOVE_RAFT_VOTER, voters.RemoveRaftVoterResponse
            found = self._ask(leader, api, 0, request, answer, seconds)
            _check(found.error_code, found.error_message or "")

        self._on_leader(0, attempt, done=ErrorCode.VOTER_NOT_FOUND)

    @staticmethod
    def _found(answer: R | None) -> R:
        assert answer is not None, "only a repeated change of one voter has no answer"
        return answer

    def _on_leader(
        self,
        partition: int,
        attempt: Callable[[_Leader, float], R],
        done: ErrorCode | None = None,
    ) -> R | None:
        """Run `attempt` on the leader, with retries until the timeout.

        None: a retry was refused with `done`, so an earlier attempt had been carried out.
        """
        deadline = time.monotonic() + self._timeout_seconds
        why = "no server was asked"
        sent = False
        while time.monotonic() < deadline:
            sent_before: int | None = None
            try:
                leader = self._discover(partition, deadline)
                sent_before = self._connections.sent
                return attempt(leader, _seconds_of_attempt(deadline))
            except (_Retry, OSError) as error:
                why = str(error) or type(error).__name__
                # Without a leader, or without a connection to it, nothing was sent that could be carried out.
                if sent_before is not None and self._connections.sent > sent_before:
                    sent = True
            except RequestRefused as error:
                if not (sent and done is not None and error.code == done.name):
                    raise
                return None
            time.sleep(min(_PAUSE_SECONDS, max(deadline - time.monotonic(), 0)))
        outcome = (
            "The outcome of a change is unknown: describe the quorum, or repeat the request"
            if sent
            else "Nothing was changed: the request was not sent"
        )
        raise NoLeader(
            f"no success within {self._timeout_seconds:.1f} s; last error: {why}. {outcome}"
        )

    def _discover(self, partition: int, deadline: float) -> _Leader:
        """Find the leader, through any server."""
        if self._logs_in and partition == 0:
            return self._discover_at_listener(deadline)
        request = DiscoverBrokersRequest(replica_id=CLIENT_ID, partition_index=partition)
        why = ""
        for address in list(self._known):
            try:
                found = self._connections.ask(
                    address,
                    apis.DISCOVER_BROKERS,
                    0,
                    request,
                    DiscoverBrokersResponse,
                    _seconds_of_attempt(deadline),
                )
            except OSError as error:
                why = self._failed(address, error, deadline)
                continue
            if found.error_code:
                raise RequestRefused(name_of(found.error_code), f"partition {partition}")
            for broker in found.brokers:
                self._remember((broker.host, broker.port), first=False)
            if found.leader_id >= 0 and found.leader_host:
                if (older := self._older(found, partition)) is not None:
                    why = f"{shown(address)} {older}"
                    continue
                leader = (found.leader_host, found.leader_port)
                self._remember(leader)
                return _Leader(leader, found.cluster_id)
            why = f"{shown(address)} knows no leader"
        raise _Retry(why)

    def _discover_at_listener(self, deadline: float) -> _Leader:
        """DiscoverBrokers returns the listeners to which members connect, where clients can't log in."""
        why = ""
        for address in list(self._known):
            try:
                found = describe_cluster(self._connections, address, _seconds_of_attempt(deadline))
            except OSError as error:
                why = self._failed(address, error, deadline)
                continue
            _check(found.error_code, found.error_message or _DESCRIBE_RIGHT)
            for node in found.brokers:
                self._remember((node.host, node.port), first=False)
            for node in found.brokers:
                if node.broker_id == found.controller_id:
                    self._remember((node.host, node.port))
                    return _Leader((node.host, node.port), found.cluster_id)
            why = f"{shown(address)} knows no leader"
        raise _Retry(why)

    def _failed(self, address: Address, error: OSError, deadline: float) -> str:
        """Why this server is not used; it is asked last from now on. Raises _Retry when the time is over."""
        why = f"{shown(address)}: {error}"
        self._known.remove(address)
        self._known.append(address)
        if time.monotonic() >= deadline:
            raise _Retry(why) from error
        return why

    def _older(self, found: DiscoverBrokersResponse, partition: int) -> str | None:
        """Why a leader is not used: its server is outdated, or its voters belong to the time before a recovery."""
        cluster = (found.cluster_id, partition)
        newest = self._newest.get(cluster, -1)
        self._newest[cluster] = max(newest, found.leader_epoch)
        if 0 <= found.leader_epoch < newest:
            return f"names a leader of epoch {found.leader_epoch}, but epoch {newest} is known"
        return None

    def _ask(
        self,
        leader: _Leader,
        api: Api,
        version: int,
        body: Message,
        answer: type[M],
        seconds: float,
    ) -> M:
        """Sent once: `_on_leader` must know of every repetition."""
        return self._connections.ask(
            leader.address, api, version, body, answer, seconds, resend=False
        )

    def _remember(self, address: Address, *, first: bool = True) -> None:
        """Order in which servers are asked: the last leader first."""
        if first and address in self._known:
            self._known.remove(address)
        if address not in self._known:
            self._known.insert(0 if first else len(self._known), address)


def _seconds_of_attempt(deadline: float) -> float:
    """How long one request may take. 10 ms when the time is over, as a timeout of 0 would have another meaning for a socket."""
    return min(max(deadline - time.monotonic(), 0.01), _ATTEMPT_SECONDS)


def _check(code: int, message: str) -> None:
    if code == ErrorCode.NONE:
        return
    if code in _RETRIED:
        raise _Retry(message or name_of(code))
    if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        # A bare error code without a message comes from a listener that does not permit changes of voters.
        closed = "voters can't be changed through this listener; use the admin API and its token"
        raise AuthorizationFailed(
            name_of(code), message if message not in ("", name_of(code)) else closed
        )
    raise RequestRefused(name_of(code), message)


def _address(server: str) -> Address:
    address = parse_host_port(server)
    return address.host, address.port


def _target(voter: int | ReplicaKey) -> alter.TargetVoter:
    if isinstance(voter, ReplicaKey):
        return alter.TargetVoter(voter_id=voter.id, voter_directory_id=voter.uuid)
    return alter.TargetVoter(voter_id=voter)


def _quorum_info(part: desc.DescribeQuorumResponsePartition) -> QuorumInfo:
    return QuorumInfo(
        leader_id=part.leader_id if part.leader_id >= 0 else None,
        leader_epoch=part.leader_epoch,
        high_watermark=part.high_watermark,
        current_voters=_descriptions(part.current_voters),
        target_voters=_descriptions(part.target_voters),
        observers=_descriptions(part.observers),
    )


def _descriptions(replicas: Sequence[desc.QuorumReplica]) -> dict[int, VoterDescription]:
    return {
        each.replica_id: VoterDescription(
            ReplicaKey(each.replica_id, each.replica_directory_id),
            each.log_end_offset if each.log_end_offset >= 0 else None,
            each.last_caught_up_timestamp_ms if each.last_caught_up_timestamp_ms >= 0 else None,
        )
        for each in replicas
    }
