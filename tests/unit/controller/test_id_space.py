"""One id space for brokers and controllers (K631-01): which requests are rejected, which continue, and what identifies one process."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from quorum_node.controller.id_space import doubled, voter_conflict
from quorum_node.controller.view import Replicas
from quorum_node.protocol.broker_registration import RegisteredListener, UnregisterBrokerRequest
from quorum_node.protocol.controller_registration import ControllerRegistrationRequest
from quorum_node.protocol.errors import ErrorCode
from quorum_node.records.identity import ReplicaKey
from quorum_node.records.metadata import RegisterBrokerRecord, RegisterControllerRecord
from support.broker_requests import FEATURES, heartbeat, registration
from support.controller_env import VOTERS, play
from support.partition_env import FAR, PartitionEnv

pytestmark = pytest.mark.requirement("K631-01")

TAKEN = ErrorCode.DUPLICATE_BROKER_REGISTRATION
VOTER = VOTERS[0]
U9, V9 = UUID(int=(9 << 64) + 1), UUID(int=(9 << 64) + 2)
PROCESS = UUID(int=77)


def controller(node_id: int, uuid: UUID | None = None, **fields: Any) -> Any:
    """A controller's registration; without a UUID as stock Kafka sends it."""
    listener = RegisteredListener(name="CONTROLLER", host="here", port=9093, security_protocol=0)
    given: dict[str, Any] = {"incarnation_id": UUID(int=(node_id << 70) + 1), **fields}
    return ControllerRegistrationRequest(
        controller_id=node_id,
        listeners=(listener,),
        features=FEATURES,
        directory_id=uuid,
        **given,
    )


def old_broker(broker_id: int, *directories: UUID, epoch: int = 5) -> RegisterBrokerRecord:
    """What an older version let in."""
    return RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=UUID(int=1),
        broker_epoch=epoch,
        end_points=(),
        features=(),
        rack=None,
        fenced=False,
        log_dirs=directories,
    )


def env(test: Callable[[PartitionEnv], Awaitable[None]], *older: Any) -> None:
    """Run a test on an active controller; `older` is committed before its activation."""

    async def run() -> None:
        made = PartitionEnv()
        made.committed.replay(older)
        await made.begin()
        await test(made)

    play(run)


async def code(made: PartitionEnv, request: Any) -> int:
    """The error of its answer."""
    error: int = (await made.do(request)).error_code
    await made.settle()
    return error


@pytest.mark.parametrize("voter", VOTERS)
def test_broker_cannot_use_a_voter_id(voter: ReplicaKey) -> None:
    async def test(made: PartitionEnv) -> None:
        assert await code(made, registration(voter.id)) == TAKEN
        assert made.committed.image.brokers.get(voter.id) is None
        assert await code(made, registration(7)) == ErrorCode.NONE

    env(test)


def test_broker_cannot_use_the_id_of_a_registered_controller() -> None:
    async def test(made: PartitionEnv) -> None:
        assert await code(made, controller(9, U9)) == ErrorCode.NONE
        assert await code(made, registration(9)) == TAKEN
        made.seen = Replicas(fetching=(ReplicaKey(9, U9),))
        assert await code(made, registration(9)) == TAKEN

    env(test)


@pytest.mark.parametrize("uuid", [U9, None])
def test_broker_cannot_use_the_id_of_a_voter_being_added(uuid: UUID | None) -> None:
    async def test(made: PartitionEnv) -> None:
        made.seen = Replicas(joining=(ReplicaKey(9, uuid),))
        assert await code(made, registration(9)) == TAKEN
        assert await code(made, registration(8)) == ErrorCode.NONE

    env(test)


def test_both_roles_of_one_process_share_an_id() -> None:
    """Its metadata log is in one of the broker's directories, or both registrations name the same process."""

    async def test(made: PartitionEnv) -> None:
        assert VOTER.uuid is not None
        both = registration(VOTER.id, log_dirs=(V9, VOTER.uuid))
        assert await code(made, both) == ErrorCode.NONE
        assert await code(made, controller(9, U9, incarnation_id=PROCESS)) == ErrorCode.NONE
        assert await code(made, registration(9, incarnation_id=PROCESS)) == ErrorCode.NONE
        assert not tuple(doubled(view(made)))

    env(test)


def test_process_without_identification_is_treated_as_a_different_one() -> None:
    async def test(made: PartitionEnv) -> None:
        assert await code(made, controller(9, None, incarnation_id=None)) == ErrorCode.NONE
        assert await code(made, registration(9, incarnation_id=None)) == TAKEN

    env(test)


def test_fetching_replicas_identify_the_process_of_a_stock_controller() -> None:
    async def test(made: PartitionEnv) -> None:
        assert await code(made, controller(9)) == ErrorCode.NONE
        other = ReplicaKey(8, V9)
        for fetching in (
            (),
            (ReplicaKey(9, V9),),
            (ReplicaKey(9, U9), ReplicaKey(9, V9)),
            (other,),
        ):
            made.seen = Replicas(fetching=fetching)
            assert await code(made, registration(9, log_dirs=(U9,))) == TAKEN
        made.seen = Replicas(fetching=(other, ReplicaKey(9, U9)))
        assert await code(made, registration(9, log_dirs=(U9,))) == ErrorCode.NONE

    env(test)


def test_controller_cannot_use_a_broker_id() -> None:
    async def test(made: PartitionEnv) -> None:
        assert await code(made, registration(9, log_dirs=(V9,))) == ErrorCode.NONE
        for request in (controller(9, U9), controller(9)):
            answer = await made.do(request)
            assert answer.error_code == TAKEN
            assert "broker 9 is registered" in answer.error_message
            assert "unregister" in answer.error_message
        assert made.committed.image.controllers.get(9) is None
        assert await code(made, controller(9, V9)) == ErrorCode.NONE, "one process"

    env(test)


def test_stock_controller_beside_a_broker_is_identified_by_fetching_replicas() -> None:
    async def test(made: PartitionEnv) -> None:
        assert await code(made, registration(9, log_dirs=(V9,))) == ErrorCode.NONE
        made.seen = Replicas(fetching=(ReplicaKey(9, V9), ReplicaKey(9, U9)))
        assert await code(made, controller(9)) == TAKEN
        made.seen = Replicas(fetching=(ReplicaKey(9, V9),))
        assert await code(made, controller(9)) == ErrorCode.NONE

    env(test)


def test_unregistered_broker_releases_its_id() -> None:
    async def test(made: PartitionEnv) -> None:
        assert await code(made, registration(9)) == ErrorCode.NONE
        assert await code(made, UnregisterBrokerRequest(broker_id=9)) == ErrorCode.NONE
        assert await code(made, controller(9, U9)) == ErrorCode.NONE
        assert await code(made, registration(9)) == TAKEN

    env(test)


def test_cluster_with_shared_ids_continues_with_a_warning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Broker 1 beside voter 1, and broker 9 beside controller 9: new processes of both roles can register."""
    known = RegisterControllerRecord(
        controller_id=9, incarnation_id=UUID(int=9), end_points=(), features=()
    )

    async def test(made: PartitionEnv) -> None:
        assert tuple(doubled(view(made))) == (VOTER.id, 9)
        warned = capsys.readouterr().out
        assert f"node ids {VOTER.id}, 9 are each used by a broker and by a controller" in warned
        for node_id in (VOTER.id, 9):
            answer = await made.do(registration(node_id, incarnation=2))
            assert answer.error_code == ErrorCode.NONE
            beat = await made.do(heartbeat(node_id, answer.broker_epoch, FAR))
            assert not beat.is_fenced
        assert await code(made, controller(VOTER.id, VOTER.uuid)) == ErrorCode.NONE
        assert await code(made, controller(9, U9)) == ErrorCode.NONE
        assert "are each used by a broker" not in capsys.readouterr().out, "once"
        request = UnregisterBrokerRequest(broker_id=VOTER.id)
        assert await code(made, request) == ErrorCode.NONE
        assert await code(made, registration(VOTER.id)) == TAKEN, "now it would be a new one"

    env(test, old_broker(VOTER.id, V9), old_broker(9, V9, epoch=6), known)


def test_combined_process_causes_no_warning(capsys: pytest.CaptureFixture[str]) -> None:
    async def test(made: PartitionEnv) -> None:
        assert not tuple(doubled(view(made)))
        assert "are each used by a broker" not in capsys.readouterr().out

    assert VOTER.uuid is not None
    env(test, old_broker(VOTER.id, VOTER.uuid, V9))


def test_replica_with_a_broker_id_does_not_become_a_voter() -> None:
    async def test(made: PartitionEnv) -> None:
        image = made.committed.image
        assert voter_conflict(image, VOTERS, ReplicaKey(7, U9)) is not None
        assert voter_conflict(image, VOTERS, ReplicaKey(7)) is not None
        assert voter_conflict(image, VOTERS, ReplicaKey(7, V9)) is None, "one process"
        assert voter_conflict(image, VOTERS, ReplicaKey(8, U9)) is None, "free"
        replaced = replace(VOTER, uuid=U9)
        assert voter_conflict(image, VOTERS, replaced) is None, "the id is a voter's already"
        assert voter_conflict(image, (), replaced) is not None

    env(test, old_broker(7, V9), old_broker(VOTER.id, V9, epoch=6))


def view(made: PartitionEnv) -> Any:
    """What a command sees now."""
    found = made.controller.view()
    assert found is not None
    return found
