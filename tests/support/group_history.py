"""Four consumers of one group, whose coordinator may move and whose appends may fail: checks the invariants of a group.

`run` performs actions, each a name and a number, checks the invariants after each of them, and waits for a stable state at the end.
"""

from collections import defaultdict

from quorum_node.coordinator.errors import GroupError
from quorum_node.coordinator.group import GroupState
from quorum_node.coordinator.requests import Joined, Synced, TopicPartition
from quorum_node.coordinator.settings import GroupSettings
from support.group_env import GROUP, TOPIC, GroupEnv

SESSION_MS = 10_000
REBALANCE_MS = 8000
"""Shorter than a session: a static member may be away when the others have joined."""
INITIAL_DELAY_MS = 3000
_MOST_JOIN_MS = REBALANCE_MS + INITIAL_DELAY_MS + 5000
"""Timers are up to 1.4 s late, as `GroupEnv.wait` goes in steps."""
FAILURES = (GroupError.COORDINATOR_NOT_AVAILABLE, GroupError.NOT_COORDINATOR)
OF_CLIENTS = ("enter", "rejoin", "sync", "heartbeat", "leave", "commit")
WAITS_MS = (100, 3000, 11_000, 70_000)


class Client:
    """A consumer: the last answers that it got. `instance`: of a static one."""

    def __init__(self, number: int) -> None:
        self.instance = f"instance-{number}" if number % 2 else None
        self.member = ""
        self.generation = -1
        self.joining: int | None = None
        self.joining_since_ms = 0.0
        self.syncing: int | None = None


class History:
    """Four clients of one group, whose coordinator may move."""

    def __init__(self) -> None:
        self.env = GroupEnv(
            GroupSettings(initial_rebalance_delay_ms=INITIAL_DELAY_MS), stores=False
        )
        self.clients = [Client(number) for number in range(4)]
        self.leaders: dict[int, set[str]] = defaultdict(set)
        self.commits: dict[int, int] = {}
        self.next_offset = 0

    def act(self, name: str, number: int) -> None:
        if name == "wait":
            self.env.wait(number)
        elif name in ("store", "fail"):
            if self.env.appends:
                error = GroupError.NONE if name == "store" else FAILURES[number]
                self.env.store(error)
        elif name == "move":
            self.move()
        else:
            getattr(self, name)(self.clients[number])
        self.read_answers()
        self.check()

    def move(self) -> None:
        """Another coordinator takes over: requests, and appends that are not stored, are lost."""
        acknowledged = self.acknowledged()
        self.env = self.env.taken_over()
        self.env.stores = False
        self.commits = {}
        for client in self.clients:
            client.joining = client.syncing = None
        found = self.env.offset()
        assert (found if found is not None else -1) >= acknowledged, (
            "an acknowledged offset is lost"
        )

    def acknowledged(self) -> int:
        """The newest offset whose commit was acknowledged."""
        answers = self.env.answers
        done = [
            offset
            for request, offset in self.commits.items()
            if request in answers and self.env.committed(request) is GroupError.NONE
        ]
        return max(done, default=-1)

    def enter(self, client: Client) -> None:
        if client.joining is None:
            client.member = ""
            self.rejoin(client)

    def rejoin(self, client: Client) -> None:
        if client.joining is None:
            client.syncing = None
            client.joining_since_ms = self.env.ms
            client.joining = self.env.join(
                client.member,
                instance_id=client.instance,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
            )

    def sync(self, client: Client) -> None:
        if client.syncing is None and client.generation >= 0:
            given = {each.member: each.member.encode() for each in self.clients if each.member}
            is_leader = client.member in self.leaders[client.generation]
            client.syncing = self.env.sync(
                client.member,
                client.generation,
                given if is_leader else None,
                instance_id=client.instance,
            )

    def heartbeat(self, client: Client) -> None:
        if client.member and client.joining is None:
            self.env.heartbeat(client.member, client.generation, client.instance)

    def leave(self, client: Client) -> None:
        if client.member and client.joining is None:
            self.env.leave((client.member, client.instance))
            client.member, client.generation = "", -1

    def commit(self, client: Client) -> None:
        if client.generation >= 0:
            self.next_offset += 1
            request = self.env.commit(
                self.next_offset, client.member, client.generation, instance=client.instance
            )
            self.commits[request] = self.next_offset

    def read_answers(self) -> None:
        answers = self.env.answers
        for client in self.clients:
            if client.joining in answers:
                joined = answers[client.joining]
                client.joining = None
                assert isinstance(joined, Joined)
                if joined.error is GroupError.MEMBER_ID_REQUIRED:
                    client.member = joined.member_id
                elif joined.error is GroupError.NONE:
                    client.member, client.generation = joined.member_id, joined.generation
                    if joined.members:
                        self.leaders[joined.generation].add(joined.member_id)
                        assert joined.leader_id == joined.member_id
                else:
                    client.member, client.generation = "", -1
            if client.syncing in answers:
                synced = answers[client.syncing]
                client.syncing = None
                assert isinstance(synced, Synced)
                if synced.error is GroupError.NONE:
                    # A static member that returned has the assignment of its previous member id.
                    assert synced.assignment in (b"", client.member.encode()) or client.instance

    def check(self) -> None:
        group = self.env.shard.table.groups.get(GROUP)
        if group is None:
            return
        if group.state is GroupState.PREPARING_REBALANCE:
            rejoined = {each.joining for each in group.members.values()}
            for client in self.clients:
                waited_ms = self.env.ms - client.joining_since_ms
                is_late = client.joining in rejoined - {None} and waited_ms > _MOST_JOIN_MS
                assert not is_late, "the rebalance does not end"
        if group.state is GroupState.COMPLETING_REBALANCE:
            assert group.leader_id in self.leaders[group.generation], "nobody assigns"
        assert set(group.static.values()) <= group.members.keys()
        assert (
            bool(group.members)
            or group.leader_id is None
            or group.state is GroupState.PREPARING_REBALANCE
        )
        assert group.leader_id is None or group.leader_id in group.members
        if group.state is GroupState.EMPTY:
            assert not group.members
        if group.state is GroupState.STABLE:
            assert not any(each.syncing is not None for each in group.members.values())
            self.check_stored()
        if group.state is not GroupState.PREPARING_REBALANCE:
            assert not any(each.joining is not None for each in group.members.values())
        waiting = [each.joining for each in group.members.values() if each.joining is not None]
        waiting += [each.syncing for each in group.members.values() if each.syncing is not None]
        assert len(waiting) == len(set(waiting))
        assert not set(waiting) & self.env.answers.keys(), "a request is waiting and answered"

    def check_stored(self) -> None:
        """The assignments that members got are those that another coordinator would give them."""
        if self.env.appends:
            return
        group, others = self.env.group, self.env.taken_over().shard.table.groups
        assert GROUP in others, "another coordinator does not know the group"
        other = others[GROUP]
        assert other.generation == group.generation
        assert other.leader_id == group.leader_id
        assert {m: each.assignment for m, each in other.members.items()} == {
            m: each.assignment for m, each in group.members.items()
        }

    def end(self) -> None:
        """Everything is stored and time passes: no request waits forever, and silent members are removed."""
        for _ in range(6):
            while self.env.appends:
                self.env.store()
            self.env.wait(400_000)
        self.read_answers()
        assert all(each.joining is None for each in self.clients)
        assert all(each.syncing is None for each in self.clients)
        group = self.env.shard.table.groups.get(GROUP)
        assert group is None or group.state is GroupState.EMPTY
        known = self.env.shard.table.offsets.of(GROUP).get(TopicPartition(TOPIC, 0))
        assert (known.offset if known else -1) >= self.acknowledged()


def run(acts: list[tuple[str, int]]) -> None:
    history = History()
    for name, number in acts:
        history.act(name, number)
    history.end()
