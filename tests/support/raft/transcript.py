"""Readable scenarios: commands and the reactions of the cores.

A transcript is a text file. A line that begins with "> " is a command; the lines below it are what
happened, up to the next command; "#" begins a comment. `play` runs the commands and returns the text
with what really happened, so a test compares, and a rewrite is just writing the result back.

Commands (N is a node's name, "3'" a second incarnation of id 3):
    quorum N ...            a formed quorum led by the first
    start N [founder] [initial K] [via M] [auto-join]
    jitter N X              draw X (0 to 1) for its delays          without-pre-vote N ...  older software; none: nobody
    move N HOST             it stops, and starts at another address
    add N [first] / remove N / resign N [to M] / stop N            asked of the current leader (or N)
    propose N TEXT ... / read N                                     partition A B | C ... / heal
    alter N ... / cancel / plan     target voters, asked of the current leader; what it does about them
    crash N / restart N / lose-disk N / advance MS                 hold N / flush N / release N
    small-fetches N         one batch per fetch                     elect N [cut-off]   as first successor,
                                                                    or just so if it knows no leader
    cut-after N parts K     N is cut off from all once it has K parts of a snapshot
    snapshot N / delete-prefix N / small-parts N BYTES / hold-verification N / verified N
    start N static A B ...  one of the static voters A B ...        lose-disk N        same address
    addresses N             what it has heard of where voters listen
    stranger N asks M epoch E                                       show        witness N
    claim ID at HOST to N   somebody says that ID leads the next epoch, and listens there
    quietly COMMAND         without writing down what happens
    leaders-voters          from here on, without the voters that others than the leader come to have
"""

from dataclasses import replace

from quorum_node.raft import RaftError, Replica
from quorum_node.raft.events import RequestReceived, ShutdownRequested
from quorum_node.raft.messages import (
    AddVoterRequest,
    AlterQuorumRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    DiscoverBrokersRequest,
    DiscoverBrokersResponse,
    EndQuorumEpochRequest,
    ReadOffsetRequest,
    ReadOffsetResponse,
    RemoveVoterRequest,
    ResignRequest,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from quorum_node.raft.outputs import (
    DeleteLogPrefix,
    DropPartialSnapshot,
    FinishSnapshot,
    FormationDelayed,
    Halt,
    Output,
    ProposalCommitted,
    ProposalFailed,
    ReadConfirmed,
    ReadFailed,
    ResetLog,
    Respond,
    RoleChanged,
    Send,
    TruncateLog,
    VotersChanged,
    WriteSnapshotChunk,
)
from quorum_node.raft.roles import RoleName
from quorum_node.records.identity import ReplicaKey, Voter
from quorum_node.records.snapshot_id import NO_SNAPSHOT
from support.raft.cores import CLUSTER_ID, Cores, Node, endpoints_of, key_of
from support.raft.node import name_at
from support.raft.snapshot_env import delete_prefix, release_finish, take_snapshot


class Transcript:
    """Plays one file."""

    def __init__(self) -> None:
        self.cores = Cores(self._saw)
        self._lines: list[str] = []
        self._proposals: dict[int, str] = {}
        self._cut_off: str | None = None
        self._voters_by_leaders = False
        self._parts_left: dict[str, int] = {}

    def play(self, text: str) -> str:
        """The transcript with the actual events."""
        out: list[str] = []
        for line in text.splitlines():
            if line.startswith("> "):
                self._lines = []
                words = line[2:].split()
                self._command(words[1:] if words[0] == "quietly" else words)
                if words[0] == "quietly":
                    self._lines = []
                out.append(line)
                out += [f"  {each}" for each in self._lines]
            elif line.startswith("#") or not line.strip():
                out.append(line.rstrip())
        return "\n".join(out) + "\n"

    def _command(self, words: list[str]) -> None:
        name, *rest = words
        getattr(self, "_" + name.replace("-", "_"))(*rest)

    def _node(self, name: str) -> Node:
        return self.cores.nodes[name]

    # -- commands

    def _quorum(self, *names: str) -> None:
        self.cores.quorum(*names)
        self._lines = []
        self._show()

    def _start(self, name: str, *options: str) -> None:
        words = list(options)
        initial = int(words[words.index("initial") + 1]) if "initial" in words else 1
        via = [words[words.index("via") + 1]] if "via" in words else []
        static = words[words.index("static") + 1 :] if "static" in words else []
        number, incarnation = int(name.rstrip("'")), 1 + name.count("'")
        self.cores.start(
            name,
            number,
            incarnation=incarnation,
            static=static,
            cluster_id=CLUSTER_ID if static else None,
            founder="founder" in words,
            bootstrap=via,
            initial_voters=initial,
            auto_join="auto-join" in words,
        )
        self.cores.advance(60)

    def _add(self, name: str, *options: str) -> None:
        node = self._node(name)
        request = AddVoterRequest(
            CLUSTER_ID, node.key, node.config.endpoints, 3000, count_newcomer="first" in options
        )
        self._ask(self.cores.leader, request)

    def _remove(self, name: str) -> None:
        key = key_of(int(name.rstrip("'")), 1 + name.count("'"))
        self._ask(self.cores.leader, RemoveVoterRequest(CLUSTER_ID, key, 3000))

    def _alter(self, *names: str) -> None:
        """Incarnations are left open: whatever replica has the id."""
        self._change_target(tuple(ReplicaKey(int(name)) for name in names))

    def _cancel(self) -> None:
        self._change_target(None)

    def _leaders_voters(self) -> None:
        self._voters_by_leaders = True

    def _change_target(self, target: tuple[ReplicaKey, ...] | None) -> None:
        leader = self.cores.leader
        answer = self.cores.request(leader, AlterQuorumRequest(CLUSTER_ID, target, 3000))
        if answer is None:
            self._lines.append(f"{leader.name} has not answered yet")
        else:
            assert isinstance(answer, VoterChangeResponse)
            self._lines.append(
                f"{leader.name} answers: {answer.error.name} {answer.message}".strip()
            )

    def _plan(self) -> None:
        leader = self.cores.leader
        plan = leader.replica.describe(self.cores.now_ms).plan or "no plan"
        for node in self.cores.nodes.values():
            plan = plan.replace(str(node.key), node.name)
        self._lines.append(f"{leader.name}: {plan}")

    def _ask(self, leader: Node, request: AddVoterRequest | RemoveVoterRequest) -> None:
        answer = self.cores._change(leader, request)
        text = f"{answer.error.name} {answer.message}".strip()
        self._lines.append(f"{leader.name} answers: {text}")

    def _append_change(self, name: str, kind: str, other: str) -> None:
        """Start a change without waiting for its commit."""
        key = key_of(int(other))
        node = self.cores.nodes.get(other)
        endpoints = node.config.endpoints if node is not None else ()
        request: AddVoterRequest | RemoveVoterRequest = RemoveVoterRequest(CLUSTER_ID, key, 60000)
        if kind == "add":
            request = AddVoterRequest(CLUSTER_ID, key, endpoints, 60000)
        self.cores.do(self._node(name), RequestReceived(self.cores._number(), request))

    def _propose(self, name: str, *texts: str) -> None:
        node = self._node(name)
        number = self.cores._next_id + 1
        self._proposals[number] = " ".join(texts)
        self.cores.propose(node, *texts)

    def _read(self, name: str) -> None:
        self.cores.read(self._node(name))

    def _partition(self, *words: str) -> None:
        groups = [group.split() for group in " ".join(words).split("|")]
        self.cores.partition(*groups)

    def _heal(self) -> None:
        self.cores.heal()

    def _advance(self, ms: str) -> None:
        self.cores.advance(float(ms))

    def _crash(self, name: str) -> None:
        self.cores.crash(self._node(name))

    def _restart(self, name: str) -> None:
        self.cores.restart(self._node(name))

    def _lose_disk(self, name: str) -> None:
        node = self._node(name)
        self.cores.lose_disk(node, 2)

    def _hold(self, name: str) -> None:
        self._node(name).hold_flush = True

    def _flush_once(self, name: str) -> None:
        node = self._node(name)
        self.cores._flush(node)
        self.cores.run()

    def _release(self, name: str) -> None:
        self.cores.release_flush(self._node(name))

    def _small_fetches(self, name: str) -> None:
        node = self._node(name)
        node.config = replace(node.config, fetch_max_bytes=1)
        node.replica.config = node.config

    def _jitter(self, name: str, drawn: str) -> None:
        node = self._node(name)
        node.jitter = float(drawn)
        node.replica.jitter = lambda: float(drawn)

    def _without_pre_vote(self, *names: str) -> None:
        self.cores.without_pre_vote = set(names)

    def _move(self, name: str, host: str) -> None:
        self.cores.move(self._node(name), host)

    def _witness(self, name: str) -> None:
        node = self._node(name)
        node.config = replace(node.config, witness=True)
        node.replica.config = node.config

    def _stop(self, name: str) -> None:
        self.cores.do(self._node(name), ShutdownRequested())

    def _resign(self, name: str, *options: str) -> None:
        successor = self._node(options[1]).key if options else None
        self.cores.request(self._node(name), ResignRequest(successor))

    def _snapshot(self, name: str) -> None:
        node = self._node(name)
        taken = take_snapshot(self.cores, node)
        size_bytes = len(node.snapshots.whole[taken])
        self._lines.append(f"{name} has snapshot {taken} of {size_bytes} bytes")

    def _delete_prefix(self, name: str) -> None:
        delete_prefix(self.cores, self._node(name))

    def _small_parts(self, name: str, size_bytes: str) -> None:
        node = self._node(name)
        node.config = replace(node.config, snapshot_part_bytes=int(size_bytes))
        node.replica.config = node.config

    def _cut_after(self, name: str, _parts: str, count: str) -> None:
        self._parts_left[name] = int(count)

    def _hold_verification(self, name: str) -> None:
        self._node(name).hold_finish = True

    def _verified(self, name: str) -> None:
        release_finish(self.cores, self._node(name))

    def _elect(self, name: str, *options: str) -> None:
        node = self._node(name)
        if "cut-off" in options:
            self._cut_off = name
        replica = node.replica
        leader_id = replica.known_leader_id
        if leader_id < 0 or leader_id == node.key.id:
            self.cores.campaign(node)
            return
        request = EndQuorumEpochRequest(CLUSTER_ID, leader_id, node.replica.epoch, (node.key,))
        self.cores.request(node, request)

    def _addresses(self, name: str) -> None:
        node = self._node(name)
        answer = self.cores.request(node, DiscoverBrokersRequest(ReplicaKey(-1)))
        assert isinstance(answer, DiscoverBrokersResponse)
        received = (f"{_name(each.key)} at {each.endpoint.host}" for each in answer.brokers)
        self._lines.append(f"{name} knows {', '.join(received)}")

    def _claim(self, leader_id: str, _at: str, host: str, _to: str, other: str) -> None:
        node = self._node(other)
        place = endpoints_of(host)[0]
        epoch = node.replica.epoch + 1
        request = BeginQuorumEpochRequest(CLUSTER_ID, int(leader_id), epoch, node.key, place)
        answer = self.cores.request(node, request)
        assert isinstance(answer, BeginQuorumEpochResponse)
        self._lines.append(f"{other} answers: {answer.error.name}")

    def _stranger(self, name: str, _asks: str, other: str, _epoch: str, epoch: str) -> None:
        node = self._node(other)
        request = VoteRequest(CLUSTER_ID, key_of(int(name)), int(epoch), 99, 99, voter=node.key)
        answer = self.cores.request(node, request)
        assert isinstance(answer, VoteResponse)

    def _show(self) -> None:
        for node in self.cores.nodes.values():
            replica = node.replica
            if not node.up:
                self._lines.append(f"{node.name}: down")
                continue
            role = replica.role.name.value if replica.is_voter else "observer"
            values = " ".join(node.values()) or "-"
            committed = len(node.committed_values())
            self._lines.append(
                f"{node.name}: {role}, epoch {replica.epoch}, log {replica.epochs.last_epoch}/"
                f"{replica.log_end}{_behind(replica)}, voters {_names(replica.voters.latest.voters.voters)}"
                f"{_target(replica.voters.latest.record.target_voters)}, values {values} ({committed} committed)"
            )

    # -- what happened

    def _saw(self, node: Node, output: Output) -> None:
        text = self._describe(node, output)
        if text is not None:
            self._lines.append(f"{node.name} {text}")
        if (
            isinstance(output, RoleChanged)
            and output.role is RoleName.LEADER
            and self._cut_off == node.name
        ):
            self._cut_off = None
            self._isolate(node.name)
        if isinstance(output, WriteSnapshotChunk) and node.name in self._parts_left:
            self._parts_left[node.name] -= 1
            if not self._parts_left[node.name]:
                del self._parts_left[node.name]
                self._isolate(node.name)

    def _isolate(self, name: str) -> None:
        for other in self.cores.nodes:
            self.cores.cut |= {(name, other), (other, name)}

    def _describe(self, node: Node, output: Output) -> str | None:
        older = node.name in self.cores.without_pre_vote
        match output:
            case RoleChanged(role=RoleName.PROSPECTIVE) if older:
                return None  # it sends no pre-votes, so it is a candidate at once
            case RoleChanged():
                leader = f" of {output.leader_id}" if output.role is RoleName.FOLLOWER else ""
                who = "" if output.is_voter else " (observer)"
                return f"becomes {output.role.value}{leader}, epoch {output.leader_epoch}{who}"
            case VotersChanged() if self._voters_by_leaders and not node.is_leader:
                return None
            case VotersChanged():
                state = "committed" if output.committed else "not committed"
                at = f"offset {output.position.offset}, {state}"
                target = _target(output.target)
                return f"has voters {_names(output.voters)}{target} ({at})"
            case TruncateLog():
                return f"truncates to offset {output.end_offset}"
            case ProposalCommitted():
                what = self._proposals.get(output.proposal_id, "?")
                return f"acknowledges {what} (offset {output.base_offset})"
            case ProposalFailed():
                what = self._proposals.get(output.proposal_id, "?")
                return f"fails {what}: {output.error.name}"
            case ReadConfirmed():
                return f"answers a read at offset {output.offset}"
            case ReadFailed():
                return f"fails a read: {output.error.name}"
            case WriteSnapshotChunk():
                end = output.position + len(output.data)
                return f"has bytes {output.position} to {end} of snapshot {output.id}"
            case DropPartialSnapshot():
                return f"drops its part of snapshot {output.id}"
            case FinishSnapshot():
                return f"verifies snapshot {output.id}"
            case ResetLog():
                return f"begins its log behind snapshot {output.id}"
            case DeleteLogPrefix():
                return f"deletes its log before offset {output.id.end_offset}"
            case FormationDelayed():
                return f"has not formed: voter {output.voter.id}: {output.why}"
            case Halt():
                return f"halts: {output.reason.value}"
            case Send() | Respond():
                return self._describe_message(node, output)
            case _:
                return None

    def _describe_message(self, node: Node, output: Send | Respond) -> str | None:
        if isinstance(output, Send):
            request = output.request
            to = name_at(output.destination.host)
            if isinstance(request, VoteRequest):
                if request.pre_vote and {node.name, to} & self.cores.without_pre_vote:
                    return None
                kind = "pre-vote" if request.pre_vote else "vote"
                log = f"{request.last_epoch}/{request.last_epoch_end_offset}"
                return f"asks {to} for its {kind}, epoch {request.candidate_epoch}, log {log}"
            if isinstance(request, EndQuorumEpochRequest):
                order = " ".join(str(key.id) for key in request.preferred_successors)
                return f"tells {to} that it ends epoch {request.leader_epoch}, successors {order}"
            if isinstance(request, ReadOffsetRequest):
                return f"asks {to} for a read offset"
            return None
        response = output.response
        if isinstance(response, VoteResponse):
            answer = "grants" if response.vote_granted else f"refuses ({response.error.name})"
            return f"{answer}, knows epoch {response.leader.leader_epoch}"
        if isinstance(response, ReadOffsetResponse):
            ok = response.error is RaftError.NONE
            return (
                f"gives read offset {response.offset}"
                if ok
                else f"gives no read offset ({response.error.name})"
            )
        return None


def _behind(replica: Replica) -> str:
    return f" behind snapshot {replica.start}" if replica.start != NO_SNAPSHOT else ""


def _target(target: tuple[ReplicaKey, ...] | None) -> str:
    return "" if target is None else " → " + " ".join(str(key.id) for key in target)


def _names(voters: tuple[Voter, ...]) -> str:
    return " ".join(_name(voter.key) + _elsewhere(voter) for voter in voters)


def _elsewhere(voter: Voter) -> str:
    """Where it is, unless that is a host of its own name."""
    endpoint = voter.endpoint("CONTROLLER")
    own = endpoint is None or name_at(endpoint.host).rstrip("'") == str(voter.key.id)
    return "" if own or endpoint is None else f"@{endpoint.host}"


def _name(key: ReplicaKey) -> str:
    incarnation = (key.uuid.int >> 64) if key.uuid is not None else 1
    return f"{key.id}{chr(39) * (incarnation - 1)}"
