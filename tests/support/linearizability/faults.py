"""Faults that are injected into a running quorum while clients use it, and removed some moments later.

Each fault reports when it has taken effect, so that waits are as short as possible. Knows nodes and the packet filter, no clients.
"""

import random
from collections.abc import Callable
from typing import Protocol

from support.linearizability.quorum import FilteredQuorum
from support.local_quorum import LocalNode, wait_until


class ActiveFault(Protocol):
    """An active fault."""

    def __call__(self) -> None:
        """Undo it."""


FaultKind = Callable[[FilteredQuorum, random.Random], ActiveFault]


def kill_leader(quorum: FilteredQuorum, rng: random.Random) -> ActiveFault:
    """kill -9; the others elect; then it starts again."""
    epoch, leader = quorum.newest_leader()
    leader.kill()
    quorum.await_newer_leader(epoch, _others(quorum, leader))
    return leader.start


def freeze_leader(quorum: FilteredQuorum, rng: random.Random) -> ActiveFault:
    """SIGSTOP; the others elect a leader; then it continues and still believes that it leads."""
    epoch, leader = quorum.newest_leader()
    thaw = _freeze(quorum, leader)
    quorum.await_newer_leader(epoch, _others(quorum, leader))
    return thaw


def freeze_leader_behind_a_cut(quorum: FilteredQuorum, rng: random.Random) -> ActiveFault:
    """SIGSTOP, and packets of the other voters are dropped: when it continues, requests of clients reach it first.

    Without the cut, the other voters' Vote requests lie before these in its receive buffers.
    """
    epoch, leader = quorum.newest_leader()
    majority = [node for node in quorum.voters() if node is not leader]
    quorum.network.cut(leader.id, [node.id for node in majority])
    thaw = _freeze(quorum, leader)
    quorum.await_newer_leader(epoch, majority)

    def end() -> None:
        thaw()
        quorum.network.heal()

    return end


def freeze_another(quorum: FilteredQuorum, rng: random.Random) -> ActiveFault:
    """SIGSTOP for any node but the leader."""
    _, leader = quorum.newest_leader()
    return _freeze(quorum, rng.choice(_others(quorum, leader)))


def kill_another(quorum: FilteredQuorum, rng: random.Random) -> ActiveFault:
    """kill -9 for any node but the leader."""
    _, leader = quorum.newest_leader()
    node = rng.choice(_others(quorum, leader))
    node.kill()
    return node.start


def kill_the_majority(quorum: FilteredQuorum, rng: random.Random) -> ActiveFault:
    """kill -9 for the leader and one more voter: there is no majority until they return."""
    _, leader = quorum.newest_leader()
    voters = [node for node in quorum.voters() if node is not leader]
    killed = [leader, *voters[: len(voters) // 2]]
    for node in killed:
        node.kill()

    def restart() -> None:
        for node in killed:
            node.start()

    return restart


def split_leader_off(quorum: FilteredQuorum, rng: random.Random) -> ActiveFault:
    """Packets are dropped between the leader with the observers, and the other voters."""
    epoch, leader = quorum.newest_leader()
    voters = quorum.voters()
    majority = [node for node in voters if node is not leader]
    minority = [node for node in quorum.nodes.values() if node not in majority]
    quorum.network.split([n.id for n in minority], [n.id for n in majority])
    quorum.await_newer_leader(epoch, majority)
    return quorum.network.heal


def reset_leader(quorum: FilteredQuorum, rng: random.Random) -> ActiveFault:
    """The other voters' connections to the leader are reset: they notice at once, the leader does not."""
    epoch, leader = quorum.newest_leader()
    majority = [node for node in quorum.voters() if node is not leader]
    quorum.network.cut(leader.id, [node.id for node in majority], refuse=True)
    quorum.await_newer_leader(epoch, majority)
    return quorum.network.heal


def deafen_leader(quorum: FilteredQuorum, rng: random.Random) -> ActiveFault:
    """In one direction only: the leader receives nothing from the voters, which receive its packets."""
    epoch, leader = quorum.newest_leader()
    majority = [node for node in quorum.voters() if node is not leader]
    quorum.network.cut(leader.id, [node.id for node in majority])
    quorum.await_newer_leader(epoch, majority)
    return quorum.network.heal


def split_another_off(quorum: FilteredQuorum, rng: random.Random) -> ActiveFault:
    """Packets are dropped between one node and all others."""
    _, leader = quorum.newest_leader()
    node = rng.choice(_others(quorum, leader))
    quorum.network.split([node.id], [each.id for each in quorum.nodes.values() if each is not node])
    return quorum.network.heal


def hand_over(quorum: FilteredQuorum, rng: random.Random) -> ActiveFault:
    """The leader hands over to a chosen successor."""
    epoch, leader = quorum.newest_leader()
    successor = rng.choice([node for node in quorum.voters() if node is not leader])

    def asked() -> bool:
        answer = quorum.request("POST", "/v1/resign", leader.id, json={"successorId": successor.id})
        return (answer is not None and answer.is_success) or quorum.newest_leader()[0] > epoch

    wait_until(asked, f"node {leader.id} hands over")
    quorum.await_newer_leader(epoch)
    return _nothing


def change_voters(quorum: FilteredQuorum, rng: random.Random) -> ActiveFault:
    """An observer becomes a voter; a voter, maybe the leader, becomes an observer."""
    voters = quorum.voters()
    newcomer = rng.choice([n for n in quorum.nodes.values() if n not in voters])
    leaving = rng.choice(voters)
    uuid = quorum.local(leaving.id)["replicaUuid"]
    quorum.add_voter(newcomer.id)
    quorum.remove_voter(leaving.id, uuid)
    quorum.newest_leader()
    return _nothing


KINDS: tuple[FaultKind, ...] = (
    kill_leader,
    freeze_leader,
    freeze_leader_behind_a_cut,
    split_leader_off,
    hand_over,
    reset_leader,
    change_voters,
    deafen_leader,
    kill_another,
    freeze_another,
    split_another_off,
    kill_the_majority,
)


def _nothing() -> None:
    """Nothing to undo."""


def _others(quorum: FilteredQuorum, leader: LocalNode) -> list[LocalNode]:
    return [node for node in quorum.nodes.values() if node is not leader]


def _freeze(quorum: FilteredQuorum, node: LocalNode) -> ActiveFault:
    quorum.frozen.add(node.id)
    node.freeze()

    def thaw() -> None:
        node.thaw()
        quorum.frozen.discard(node.id)

    return thaw
