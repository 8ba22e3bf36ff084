"""Every known attack on a node, tried on a quorum with the files that the operator writes by default: without a certificate, with a foreign
one, with a reader's, with a broker's. One test for each attack; they share a quorum, which all of them leave unchanged.
"""

import socket
import struct
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import httpx
import pytest

from quorum_node.protocol import elections
from quorum_node.protocol.alter_quorum import (
    AlterQuorumRequest,
    AlterQuorumRequestPartition,
    AlterQuorumRequestTopic,
    TargetVoter,
)
from quorum_node.protocol.api import Api
from quorum_node.protocol.configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from quorum_node.protocol.envelope import EnvelopeRequest
from quorum_node.protocol.envelope_principal import DefaultPrincipal, encode_principal
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.frames import SIZE_BYTES, decode_response, encode_request
from quorum_node.protocol.voters import (
    AddRaftVoterRequest,
    KRaftVersionFeature,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
    VoterListener,
)
from quorum_node.records.identity import parse_uuid
from quorum_node.schema.schema import Message
from support.local_quorum import LocalNode, wait_until
from support.one_request import opened
from support.operated_quorum import OperatedQuorum
from support.patience import PATIENT
from support.request_samples import body_of
from support.unauthorized_clients import API, WHO, WITHOUT_CONNECTION

REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TOPIC = "__cluster_metadata"
QUEUED_BYTES = 2 << 20
MAX_EPOCH = 2**31 - 1
WITHOUT_TOKEN = 3
"""This node has no `admin.token.file`: the attack on such a node is one of those below."""
ATTACKS = 12
FEW_ELECTIONS = 50
"""A busy machine has some of its own."""


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatedQuorum]:
    """Formed, and never harmed."""
    limits = {
        **PATIENT,
        "listener.name.controller.queued.max.request.bytes": str(QUEUED_BYTES),
        "socket.request.max.bytes": str(QUEUED_BYTES // 2),
    }
    with OperatedQuorum(tmp_path_factory.mktemp("locked"), **limits) as made:
        made.without_token(made.nodes[WITHOUT_TOKEN])
        made.form()
        yield made


@pytest.fixture(autouse=True)
def _unharmed(quorum: OperatedQuorum) -> Iterator[None]:
    epoch, before = state_of(quorum)
    yield
    epoch_now, now = state_of(quorum)
    assert now == before
    assert epoch_now < epoch + FEW_ELECTIONS


def state_of(quorum: OperatedQuorum) -> tuple[int, list[tuple[int, str, str]]]:
    """Epoch, and the voters with their endpoints."""
    found = quorum.describe()
    voters = [(each["id"], each["uuid"], str(each["endpoints"])) for each in found["voters"]]
    return found["leaderEpoch"], voters


def uuid_of(quorum: OperatedQuorum, node: LocalNode) -> UUID:
    found = parse_uuid(quorum.local(node.id)["replicaUuid"])
    assert found is not None
    return found


def is_refused(
    quorum: OperatedQuorum, who: str, node: LocalNode, name: str, body: Message, version: int = -1
) -> None:
    """No connection, or a response of that API with an error."""
    try:
        answer: Any = quorum.ask(who, node, name, body, version if version >= 0 else None)
    except OSError:
        assert who in WITHOUT_CONNECTION, f"{who} gets no answer to {name}"
        return
    assert who not in WITHOUT_CONNECTION, f"{who} gets an answer to {name}: {answer}"
    topics = getattr(answer, "topics", ())
    code = getattr(answer, "error_code", None)
    assert (topics[0].partitions[0].error_code if code is None else code) == REFUSED, (name, answer)


def reported_by_leader(node: LocalNode) -> tuple[elections.LeaderEndpoint, ...]:
    return (elections.LeaderEndpoint(name="CONTROLLER", host=node.host, port=node.port),)


@pytest.mark.parametrize("who", WHO)
def test_vote_with_max_epoch(quorum: OperatedQuorum, who: str) -> None:
    follower, leader = quorum.followers[0], quorum.leader
    part = elections.VoteRequestPartition(
        partition_index=0,
        replica_epoch=MAX_EPOCH - 1,
        replica_id=leader.id,
        replica_directory_id=uuid_of(quorum, leader),
        voter_directory_id=uuid_of(quorum, follower),
        last_offset_epoch=MAX_EPOCH - 1,
        last_offset=1 << 40,
        pre_vote=False,
    )
    topic = elections.VoteRequestTopic(topic_name=TOPIC, partitions=(part,))
    body = elections.VoteRequest(
        cluster_id=quorum.cluster_id, voter_id=follower.id, topics=(topic,)
    )
    is_refused(quorum, who, follower, "Vote", body)


@pytest.mark.parametrize("who", WHO)
def test_begin_quorum_epoch_from_stranger(quorum: OperatedQuorum, who: str) -> None:
    follower = quorum.followers[0]
    for leader_id in (77, quorum.leader.id):
        part = elections.BeginQuorumEpochRequestPartition(
            partition_index=0,
            voter_directory_id=uuid_of(quorum, follower),
            leader_id=leader_id,
            leader_epoch=quorum.describe()["leaderEpoch"] + 1,
        )
        topic = elections.BeginQuorumEpochRequestTopic(topic_name=TOPIC, partitions=(part,))
        body = elections.BeginQuorumEpochRequest(
            cluster_id=quorum.cluster_id,
            voter_id=follower.id,
            topics=(topic,),
            leader_endpoints=reported_by_leader(follower),
        )
        is_refused(quorum, who, follower, "BeginQuorumEpoch", body)


@pytest.mark.parametrize("who", WHO)
def test_end_quorum_epoch_from_stranger(quorum: OperatedQuorum, who: str) -> None:
    leader = quorum.leader
    for leader_id in (-1, 77, leader.id):
        part = elections.EndQuorumEpochRequestPartition(
            partition_index=0,
            leader_id=leader_id,
            leader_epoch=quorum.describe()["leaderEpoch"] + 1,
        )
        topic = elections.EndQuorumEpochRequestTopic(topic_name=TOPIC, partitions=(part,))
        body = elections.EndQuorumEpochRequest(
            cluster_id=quorum.cluster_id,
            topics=(topic,),
            leader_endpoints=reported_by_leader(leader),
        )
        is_refused(quorum, who, leader, "EndQuorumEpoch", body)


def voter_changes(quorum: OperatedQuorum) -> dict[str, Message]:
    """Each would be carried out for an operator."""
    follower = quorum.followers[0]
    targets = (TargetVoter(voter_id=quorum.leader.id),)
    part = AlterQuorumRequestPartition(partition_index=0, target_voters=targets)
    topic = AlterQuorumRequestTopic(topic_name=TOPIC, partitions=(part,))
    key = {"voter_id": follower.id, "voter_directory_id": uuid_of(quorum, follower)}
    return {
        "AddRaftVoter": AddRaftVoterRequest(
            timeout_ms=500, listeners=listeners_of(follower), **{**key, "voter_id": 9}
        ),
        "RemoveRaftVoter": RemoveRaftVoterRequest(**key),
        "AlterQuorum": AlterQuorumRequest(
            cluster_id=quorum.cluster_id, timeout_ms=3000, topics=(topic,)
        ),
    }


def listeners_of(
    node: LocalNode, host: str = "127.0.0.1", admin_port: int | None = None
) -> tuple[VoterListener, ...]:
    return (
        VoterListener(name="CONTROLLER", host=host, port=node.port),
        VoterListener(name="ADMIN", host=host, port=admin_port or node.admin_port),
    )


def update_of(
    quorum: OperatedQuorum, node: LocalNode, listeners: tuple[VoterListener, ...]
) -> UpdateRaftVoterRequest:
    return UpdateRaftVoterRequest(
        current_leader_epoch=-1,
        voter_id=node.id,
        voter_directory_id=uuid_of(quorum, node),
        listeners=listeners,
        kraft_version_feature=KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
    )


def in_envelope(api: Api, body: Message, principal: str) -> EnvelopeRequest:
    reported = DefaultPrincipal(type="User", name=principal, token_authenticated=False)
    return EnvelopeRequest(
        request_data=encode_request(api, api.max_version, 5, "x", body)[SIZE_BYTES:],
        request_principal=encode_principal(reported),
        client_host_address=b"\x7f\x00\x00\x01",
    )


@pytest.mark.requirement("K631-12", "K595-24")
@pytest.mark.parametrize("who", WHO)
def test_membership_rpcs_ignore_authorizer(quorum: OperatedQuorum, who: str) -> None:
    leader, follower = quorum.leader, quorum.followers[0]
    changes = voter_changes(quorum)
    for name, body in changes.items():
        is_refused(quorum, who, leader, name, body)
    update = update_of(quorum, follower, listeners_of(follower))
    is_refused(quorum, who, leader, "UpdateRaftVoter", update)
    for name in ("AddRaftVoter", "RemoveRaftVoter"):
        passed_on = in_envelope(API[name], changes[name], "mallory")
        if who != "broker":
            is_refused(quorum, who, leader, "Envelope", passed_on)
            continue
        answer: Any = quorum.ask(who, leader, "Envelope", passed_on)
        inside: Any = decode_response(API[name], API[name].max_version, answer.response_data)
        assert inside.error_code == REFUSED, name


@pytest.mark.requirement("K631-12")
@pytest.mark.parametrize("who", WHO)
def test_envelope_bypasses_authorizer(quorum: OperatedQuorum, who: str) -> None:
    """A broker may forward a client's request, and the client's own rights apply."""
    api = API["IncrementalAlterConfigs"]
    config = AlterableConfig(name="message.max.bytes", config_operation=0, value="12345")
    resource = AlterConfigsResource(resource_type=4, resource_name="", configs=(config,))
    body = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    leader = quorum.leader
    for principal in ("admin", "mallory", "CN=admin"):
        passed_on = in_envelope(api, body, principal)
        if who != "broker":
            is_refused(quorum, who, leader, "Envelope", passed_on)
        else:
            answer: Any = quorum.ask(who, leader, "Envelope", passed_on)
            inside: Any = decode_response(api, api.max_version, answer.response_data)
            assert inside.responses[0].error_code == REFUSED


@pytest.mark.parametrize("who", WHO)
def test_update_raft_voter_steals_admin_token(quorum: OperatedQuorum, who: str) -> None:
    """No other node changes the leader's endpoints, and a follower forwards no request, whatever address of the leader is claimed."""
    leader, follower = quorum.leader, quorum.followers[0]
    with socket.create_server(("127.0.0.1", 0)) as thief:
        thief.settimeout(0.2)
        update = update_of(quorum, leader, listeners_of(leader, admin_port=thief.getsockname()[1]))
        is_refused(quorum, who, leader, "UpdateRaftVoter", update)
        url = f"{follower.admin_url}/v1/configs/topic/t/k"
        answer = quorum.client.put(url, json={"value": "v", "timeoutMs": 2000})
        assert answer.status_code == 421
        with pytest.raises(TimeoutError):
            thief.accept()


@pytest.mark.requirement("K631-12")
@pytest.mark.parametrize("who", WHO)
def test_authorizer_shuts_out_own_controllers(quorum: OperatedQuorum, who: str) -> None:
    """Members register, and nobody else in their place."""
    wait_until(lambda: sorted(quorum.registered()) == [1, 2, 3], "all controllers registered")
    before = quorum.registered()
    body = body_of(API["ControllerRegistration"], quorum.followers[0].id)
    is_refused(quorum, who, quorum.leader, "ControllerRegistration", body)
    assert quorum.registered() == before


@pytest.mark.parametrize("who", WHO)
def test_unfinished_frames_hold_memory(quorum: OperatedQuorum, who: str) -> None:
    """What is held of all unfinished requests together is bounded; without a certificate nothing is held."""
    leader, size = quorum.leader, QUEUED_BYTES // 2 - 100
    held = []
    try:
        for _ in range(6):
            connection = opened((leader.host, leader.port), tls=quorum.context_of(who))
            held.append(connection)
            connection.settimeout(5)
            connection.sendall(struct.pack(">i", size) + bytes(size - 10))
    except OSError:
        pass  # closed: by the handshake, or to make room
    finally:
        with quorum.browser(who) as browser:
            if who != "foreign":
                text = browser.get(f"{leader.admin_url}/metrics").text
            else:
                text = quorum.client.get(f"{leader.admin_url}/metrics").text
        for connection in held:
            connection.close()
    (line,) = (
        each
        for each in text.splitlines()
        if each.startswith("metadata_quorum_unfinished_request_bytes ")
    )
    limit = 0 if who in WITHOUT_CONNECTION else QUEUED_BYTES
    assert float(line.split()[1]) <= limit


STATUS = {"nobody": 401, "reader": 403, "broker": 403}


def status_of(
    quorum: OperatedQuorum,
    who: str,
    method: str,
    path: str,
    node: LocalNode | None = None,
    **rest: Any,
) -> int | None:
    """Of the leader, or of another node; None where there is no connection."""
    with quorum.browser(who) as browser:
        try:
            url = (node or quorum.leader).admin_url + path
            return browser.request(method, url, **rest).status_code
        except httpx.TransportError:
            return None


@pytest.mark.parametrize("who", WHO)
def test_body_parsed_before_token_check(quorum: OperatedQuorum, who: str) -> None:
    """The answer is there before the first byte of the body has been sent."""
    leader = quorum.leader
    head = (
        f"POST /v1/append HTTP/1.1\r\nHost: {leader.host}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {14 << 20}\r\n\r\n"
    )
    try:
        address = leader.host, leader.admin_port
        with opened(address, tls=quorum.context_of(who)) as connection:
            connection.sendall(head.encode())
            answer = connection.recv(100).decode()
    except OSError:
        answer = ""
    assert answer.startswith(f"HTTP/1.1 {STATUS[who]}" if who in STATUS else ""), answer
    assert bool(answer) is (who in STATUS)


@pytest.mark.parametrize("who", WHO)
def test_log_reading_stalls_commits(quorum: OperatedQuorum, who: str) -> None:
    for path in ("/v1/log?maxRecords=10000", "/v1/log?fromOffset=0"):
        assert status_of(quorum, who, "GET", path) == STATUS.get(who)


@pytest.mark.parametrize("who", WHO)
def test_voter_endpoint_not_validated(quorum: OperatedQuorum, who: str) -> None:
    """Only the voter itself may update its entry, and an address that can't be dialled is rejected also from the voter."""
    leader, follower = quorum.leader, quorum.followers[0]
    for host in ("", "\0", "a" * 30_000, "256.256.256.256"):
        update = update_of(quorum, follower, listeners_of(follower, host))
        is_refused(quorum, who, leader, "UpdateRaftVoter", update, 0)
        own: Any = quorum.ask(str(follower.id), leader, "UpdateRaftVoter", update, 0)
        assert own.error_code == ErrorCode.INVALID_REQUEST
    another = update_of(quorum, leader, listeners_of(leader))
    is_refused(quorum, str(follower.id), leader, "UpdateRaftVoter", another, 0)


@pytest.mark.parametrize("who", WHO)
def test_admin_api_open_without_token_file(quorum: OperatedQuorum, who: str) -> None:
    """Neither where there is no token file, nor with a token that is in none."""
    put = {"json": {"value": "v", "timeoutMs": 5000}}
    path = "/v1/configs/topic/orders/retention.ms"
    for node in (quorum.nodes[WITHOUT_TOKEN], quorum.leader):
        assert status_of(quorum, who, "PUT", path, node, **put) == STATUS.get(who)
        assert status_of(quorum, who, "POST", "/v1/resign", node, json={}) == STATUS.get(who)
        for token in ("Bearer guessed", "Basic Z3Vlc3NlZA=="):
            headers = {"Authorization": token}
            found = status_of(quorum, who, "PUT", path, node, headers=headers, **put)
            assert found in (None, 401, 403)
            assert (found is None) is (who == "foreign")


def test_each_attack_is_tried_with_each_identity() -> None:
    """One test for each known program, and no identity is left out."""
    tests = {name: each for name, each in globals().items() if name.startswith("test_")}
    tried = {
        name
        for name, each in tests.items()
        for mark in getattr(each, "pytestmark", ())
        if mark.name == "parametrize" and mark.args == ("who", WHO)
    }
    assert len(tried) == ATTACKS
    assert tests.keys() - tried == {"test_each_attack_is_tried_with_each_identity"}
