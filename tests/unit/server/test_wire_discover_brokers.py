"""DiscoverBrokers over the wire and back, in the draft's format; and the fields of a static candidate."""

from uuid import UUID

import pytest

from quorum_node.protocol.apis import APIS, DISCOVER_BROKERS, VOTE
from quorum_node.protocol.discover_brokers import (
    CLIENT_ID,
    DiscoverBrokersRequest,
    DiscoverBrokersResponse,
    DiscoveredBroker,
)
from quorum_node.protocol.elections import VoteRequest
from quorum_node.protocol.errors import ErrorCode
from quorum_node.raft import messages as raft
from quorum_node.raft.config import CONTROLLER
from quorum_node.raft.endpoint_gossip import NOT_RECEIVED_MS, ReceivedEndpoint
from quorum_node.raft.errors import RaftError
from quorum_node.records.identity import Endpoint, ReplicaKey
from quorum_node.schema.codec import decode, encode
from quorum_node.schema.schema import Message
from quorum_node.server.wire.instant import Instant
from quorum_node.server.wire.partitions import metadata_partition
from quorum_node.server.wire.rpcs import from_wire
from support.wire import api_of, join, shared_fields, split, to_wire

K595_18 = pytest.mark.requirement("K595-18")

ME = ReplicaKey(1, UUID(int=11))
HERE = Endpoint(CONTROLLER, "node-1.local", 9093)
REQUEST = raft.DiscoverBrokersRequest(ME, 1_700_000_000_000, HERE)
ANSWER = raft.DiscoverBrokersResponse(
    RaftError.NONE,
    raft.CurrentLeader(2, 7, Endpoint(CONTROLLER, "node-2.local", 9093)),
    "cluster",
    (
        ReceivedEndpoint(ME, 1_700_000_000_000, HERE),
        ReceivedEndpoint(
            ReplicaKey(2, UUID(int=12)), NOT_RECEIVED_MS, Endpoint(CONTROLLER, "b", 1)
        ),
        ReceivedEndpoint(ReplicaKey(3), 5, Endpoint(CONTROLLER, "c", 65535)),
    ),
)


def over_the_wire(message: Message, version: int = 0) -> Message:
    return decode(type(message), version, encode(message, version))


def no_clock() -> Instant:
    raise AssertionError("only DescribeQuorum reports times")


@K595_18
def test_discover_brokers_has_the_private_api_key() -> None:
    assert APIS[20001] is DISCOVER_BROKERS is api_of(REQUEST)
    assert shared_fields(REQUEST) is None


@K595_18
@pytest.mark.parametrize("number", [0, 3])
@pytest.mark.requirement("K595-15")
def test_discover_brokers_request_and_response_survive_an_encoding_round_trip(number: int) -> None:
    body = over_the_wire(to_wire([(number, REQUEST)], 0))
    assert split(body) == [(metadata_partition(number), REQUEST)]
    reported = over_the_wire(join(body, [ANSWER], no_clock))
    assert from_wire(reported, [number]) == [ANSWER]


@K595_18
def test_draft_fields_are_encoded_in_the_draft_order() -> None:
    """What has no private fields is the draft's message to the byte."""
    request = DiscoverBrokersRequest(replica_id=2, boot_timestamp=3, host="h", port=4)
    assert encode(request, 0).hex() == "00000002" + "0000000000000003" + "0268" + "00000004" + "00"
    broker = DiscoveredBroker(voter_id=1, boot_timestamp=2, host="h", port=3)
    response = DiscoverBrokersResponse(error_code=0, cluster_id="c", brokers=(broker,))
    expected = (
        "0000" + "0263" + "02" + "00000001" + "0000000000000002" + "0268" + "00000003" + "0000"
    )
    assert encode(response, 0).hex() == expected


@K595_18
def test_client_sends_no_replica_of_its_own() -> None:
    body = over_the_wire(DiscoverBrokersRequest(replica_id=CLIENT_ID))
    ((_, request),) = split(body)
    assert request == raft.DiscoverBrokersRequest(ReplicaKey(-1))


@K595_18
@pytest.mark.parametrize(
    ("host", "port"), [("", 1), ("h", 0), ("h", -1), ("h", 65536), ("x" * 256, 1), ("a\nb", 1)]
)
def test_invalid_address_is_ignored(host: str, port: int) -> None:
    ((_, request),) = split(DiscoverBrokersRequest(replica_id=2, host=host, port=port))
    assert isinstance(request, raft.DiscoverBrokersRequest)
    assert request.endpoint is None
    broker = DiscoveredBroker(voter_id=1, boot_timestamp=2, host=host, port=port)
    reported = DiscoverBrokersResponse(error_code=0, brokers=(broker,))
    (answer,) = from_wire(reported, [0])
    assert isinstance(answer, raft.DiscoverBrokersResponse)
    assert answer.brokers == ()
    assert answer.cluster_id is None


@K595_18
def test_missing_partition_is_rejected() -> None:
    body = to_wire([(9, REQUEST)], 0)
    reported = join(body, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION], no_clock)
    (answer,) = from_wire(over_the_wire(reported), [9])
    assert isinstance(answer, raft.DiscoverBrokersResponse)
    assert answer.error is not RaftError.NONE
    assert answer.brokers == ()


@pytest.mark.requirement("K853-04")
@pytest.mark.parametrize("version", range(1, 3))
def test_static_candidate_sends_its_configuration(version: int) -> None:
    request = raft.VoteRequest(
        None, ME, 3, 0, 0, ReplicaKey(2), pre_vote=version == 2, static_voters=(1, 2, 3)
    )
    body = over_the_wire(to_wire([(0, request)], version), version)
    assert split(body) == [(metadata_partition(0), request)]
    plain = raft.VoteRequest(None, ME, 3, 0, 0, ReplicaKey(2, UUID(int=12)))
    body = to_wire([(0, plain)], version)
    assert isinstance(body, VoteRequest)
    assert body.topics[0].partitions[0].tagged_fields == ()
    assert VOTE.max_version == 2
