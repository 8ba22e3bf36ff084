"""Brokers and controllers share one id space, on the wire of real nodes and in their admin API (K631-01)."""

import pytest

from quorum_node.protocol.apis import ADD_RAFT_VOTER, BROKER_REGISTRATION
from quorum_node.protocol.broker_registration import BrokerRegistrationResponse
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.voters import AddRaftVoterRequest, AddRaftVoterResponse, VoterListener
from quorum_node.records.identity import parse_uuid
from support.broker_requests import registration
from support.local_quorum import LocalQuorum, wait_until
from support.one_request import ask
from support.patience import PATIENT

pytestmark = [pytest.mark.slow, pytest.mark.requirement("K631-01")]

BROKER, OBSERVER = 7, 4


def register(quorum: LocalQuorum, broker_id: int, **fields: object) -> int:
    """A broker's process registers with the active controller; the error."""

    def attempt() -> BrokerRegistrationResponse | None:
        answer = ask(
            ("127.0.0.1", quorum.leader.port),
            BROKER_REGISTRATION,
            3,
            registration(broker_id, cluster_id=quorum.cluster_id, **fields),
        )
        assert isinstance(answer, BrokerRegistrationResponse)
        return None if answer.error_code == ErrorCode.NOT_CONTROLLER else answer

    return wait_until(attempt, "the active controller answers").error_code


def test_broker_and_controller_ids_share_one_id_space(make_quorum) -> None:
    quorum = make_quorum(3, formed=True, properties=PATIENT)
    taken = ErrorCode.DUPLICATE_BROKER_REGISTRATION
    for node_id in (1, 2, 3):
        assert register(quorum, node_id) == taken
    assert register(quorum, BROKER) == ErrorCode.NONE

    observer = quorum.add_node(OBSERVER)
    observer.start()
    wait_until(lambda: OBSERVER in quorum.registered(), "the observer is a registered controller")
    assert register(quorum, OBSERVER) == taken

    intruder = quorum.add_node(BROKER)
    intruder.start()
    quorum.wait_caught_up(BROKER)
    wait_until(
        lambda: f"broker {BROKER} is registered" in intruder.log_text,
        "the log names the registered broker",
    )
    assert BROKER not in quorum.registered()
    refused = quorum.request("POST", "/v1/voters", quorum.leader.id, json=newcomer(quorum, BROKER))
    assert (refused.status_code, refused.json()["code"]) == (409, "NODE_ID_IN_USE")
    assert "one id space" in refused.json()["message"]
    target = {"targetVoters": [1, 2, 3, BROKER]}
    refused = quorum.request("POST", "/v1/alter-quorum", quorum.leader.id, json=target)
    assert (refused.status_code, refused.json()["code"]) == (409, "NODE_ID_IN_USE")
    assert add_over_the_wire(quorum, BROKER) == taken
    assert quorum.voter_ids() == [1, 2, 3]

    quorum.add_voter(OBSERVER)
    both_roles = parse_uuid(quorum.local(OBSERVER)["replicaUuid"])
    assert register(quorum, OBSERVER) == taken
    assert register(quorum, OBSERVER, log_dirs=(both_roles,)) == ErrorCode.NONE, "one process"


def newcomer(quorum: LocalQuorum, node_id: int) -> dict[str, object]:
    """The body of an add of a node that runs."""
    own = quorum.local(node_id)
    return {"id": node_id, "uuid": own["replicaUuid"], "endpoints": own["endpoints"]}


def add_over_the_wire(quorum: LocalQuorum, node_id: int) -> int:
    """AddRaftVoter, as Kafka's tool sends it; the error."""
    own = quorum.nodes[node_id]
    request = AddRaftVoterRequest(
        cluster_id=quorum.cluster_id,
        timeout_ms=1000,
        voter_id=node_id,
        voter_directory_id=parse_uuid(quorum.local(node_id)["replicaUuid"]),
        listeners=(VoterListener(name="CONTROLLER", host="127.0.0.1", port=own.port),),
    )
    answer = ask(("127.0.0.1", quorum.leader.port), ADD_RAFT_VOTER, 0, request)
    assert isinstance(answer, AddRaftVoterResponse)
    return answer.error_code
