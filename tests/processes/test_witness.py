"""A witness among real processes: it votes and acknowledges, is seen as one, and never leads."""

import json

import pytest

from quorum_node.exit_codes import ExitCode
from support.ctl import Ctl
from support.local_quorum import LocalNode, LocalQuorum, wait_until

pytestmark = pytest.mark.slow

WITNESS = {"quorum.witness": "true"}


def with_witness(quorum: LocalQuorum) -> LocalNode:
    """Node 3 of three is a witness; the quorum has formed, and another node leads."""
    witness = quorum.nodes[3]
    witness.overrides = dict(WITNESS)
    quorum.form()
    wait_until(lambda: traits(quorum).get(3) == "witness", "its leader knows it")
    return witness


def traits(quorum: LocalQuorum) -> dict[int, str]:
    """Which voters are witnesses, as reported by the leader."""
    voters = quorum.describe()["voters"]
    return {voter["id"]: "witness" if voter["witness"] else "" for voter in voters}


def readiness(quorum: LocalQuorum, node: LocalNode) -> str:
    """The response of /readyz."""
    answer = quorum.request("GET", "/readyz", node.id)
    return str(answer.json()["reason"]) if answer is not None else ""


@pytest.mark.long
def test_witness_votes_and_acknowledges_but_never_leads(make_quorum) -> None:
    quorum = make_quorum(3)
    witness = with_witness(quorum)
    ctl = Ctl(quorum)
    assert "Follower (witness)" in ctl.run("describe", "replication")
    assert "witness: never campaigns" in ctl.run("describe", "local", "--admin", witness.admin_url)
    answer = quorum.answered("POST", "/v1/resign", json={"successorId": witness.id})
    assert answer.status_code == 400
    assert "is a witness, which can't become leader" in answer.json()["message"]

    first = quorum.leader
    first.kill()
    second = quorum.leader
    assert second is not witness
    quorum.put("a", "by two, one of them the witness")
    second.kill()
    wait_until(
        lambda: "witness, which never becomes a candidate" in readiness(quorum, witness),
        "it says so",
    )
    assert "quorum.witness=false" in readiness(quorum, witness)
    second.start()
    assert quorum.leader is second
    assert quorum.get("a") == "by two, one of them the witness"

    # The way out that it names: without the setting it may lead.
    second.kill()
    assert witness.terminate() == 0
    witness.overrides = {}
    witness.start()
    first.start()
    quorum.put("b", "by the other two")
    second.start()
    quorum.wait_caught_up(second.id)


def test_founder_cannot_be_a_witness(make_quorum) -> None:
    quorum = make_quorum(1)
    founder = quorum.nodes[1]
    founder.overrides = dict(WITNESS)
    founder.start()
    assert founder.wait_exit() == ExitCode.BAD_CONFIGURATION, founder.log_text
    message = json.loads(founder.termination_message)["message"]
    assert "quorum.witness=true" in message
    assert "once the quorum has formed" in message
    assert not founder.data_dir.exists() or not any(founder.data_dir.iterdir())
