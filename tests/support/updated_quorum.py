"""A model of a quorum that gets updates. It executes the planner's steps with the builders of real templates; pods are recreated
from the current template.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.desired import base_objects, stateful_set
from quorum_operator.desired.names import Owner
from quorum_operator.kube.facts import update_facts, update_text
from quorum_operator.planner.observed import Identity, Incarnation, Key, Observation, ReplicaView
from quorum_operator.planner.plan import plan
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.step import (
    RecordUpdate,
    RestartMember,
    Step,
    TransferLeadership,
    UpdateMember,
    changes_something,
)
from quorum_operator.planner.updates import rollout_state
from quorum_operator.resource_facts import update_wanted, wanted_by
from support.observed_quorum import sound_member, sound_pod, view_of

OWNER = Owner("q", "space", "uid-1")
FIRST_AT = 1_000_000.0
SOAK = {"soakSeconds": 60, "canaryTimeoutSeconds": 120}
OPEN = [{"start": "* * * * *", "durationMinutes": 1}]
CLOSED = [{"start": "0 0 29 2 *", "durationMinutes": 1}]
"""12 January 1970 is no 29 February."""


@dataclass
class Member:
    """One StatefulSet, and its pod."""

    template: str = ""
    made_from: str = ""
    pod: dict[str, Any] = field(default_factory=dict)
    pods: int = 1
    created_at: float = FIRST_AT - 5000
    in_sync: bool = True


class UpdatedQuorum:
    """Three voters of which the first leads."""

    def __init__(self, **spec: Any) -> None:
        self.now = FIRST_AT
        self.identity = Identity(1, "c1", 1, "u1", 3, formed=True)
        self.members = {node_id: Member() for node_id in (1, 2, 3)}
        self.leader = 1
        self.fields: dict[str, Any] = {}
        self.restarted: list[int] = []
        self.ask(**spec)
        for node_id, member in self.members.items():
            member.template = self._hashes(node_id).template_hash
            member.made_from = self._hashes(node_id).restart_hash

    def ask(self, **spec: Any) -> None:
        self.fields |= spec
        self.spec = MetadataQuorumSpec.model_validate(self.fields)

    def seen(self) -> Observation:
        voters = tuple(
            ReplicaView(Key(n, f"u{n}"), each.in_sync, each.in_sync)
            for n, each in self.members.items()
        )
        found = tuple(self._incarnation(each) for each in self.members)
        leader = Key(self.leader, f"u{self.leader}")
        return Observation(
            now=self.now,
            name="q",
            generation=1,
            wanted=wanted_by(self.spec),
            identities=(self.identity,),
            incarnations=found,
            templates={each.name: self._hashes(each.node_id) for each in found},
            view=view_of(voters, leader=leader, initial_voters=3),
            known_voters=3,
            update=update_wanted(self.spec, self.now),
        )

    def step(self) -> Step:
        """Plans once, and carries it out."""
        step = plan(self.seen())
        match step:
            case RecordUpdate(_, record):
                kept = None if record is None else update_facts(update_text(record))
                assert kept == record, "as it is annotated"
                self.identity = replace(self.identity, update=kept)
            case UpdateMember(node_id):
                self.members[node_id].template = self._hashes(node_id).template_hash
            case RestartMember(pod):
                self.come_back(int(pod.split("-")[1]))
                self.restarted.append(int(pod.split("-")[1]))
            case TransferLeadership(_, successor):
                self.leader = successor.id
            case _:
                assert not changes_something(step), step
        return step

    def settle(self) -> None:
        for _ in range(30):
            if not changes_something(self.step()):
                return
        raise AssertionError("it never settles")

    def come_back(self, node_id: int) -> None:
        """Its pod is made again, from the template that its StatefulSet has."""
        member = self.members[node_id]
        member.made_from, member.pod = self._hashes(node_id).restart_hash, {}
        member.pods, member.created_at, member.in_sync = member.pods + 1, self.now, True

    def crash(self, node_id: int, **pod: Any) -> None:
        broken = {"ready": False, "running": False, "waiting_reason": "CrashLoopBackOff"}
        self.members[node_id].pod = {**broken, "exit_code": 78, **pod}
        self.members[node_id].in_sync = False

    @property
    def canary(self) -> int:
        record = self.identity.update
        assert record is not None
        assert record.canary is not None
        return int(record.canary.split("-")[1])

    def updated(self) -> set[int]:
        """Members with pods that run the spec's template."""
        plain = self.spec.model_copy(update={"update": None})
        return {
            node_id
            for node_id, each in self.members.items()
            if each.made_from
            == stateful_set.hashes(OWNER, plain, self._member(node_id)).restart_hash
        }

    def config(self) -> dict[str, str]:
        found: dict[str, str] = base_objects.build_all(OWNER, self.spec, identity=self.identity)[0][
            "data"
        ]
        return found

    def reason(self) -> str:
        behind = rollout_state(Situation(self.seen()))
        return behind[0] if behind is not None else "AllMembersUpdated"

    def message(self) -> str:
        return (rollout_state(Situation(self.seen())) or ("", ""))[1]

    def _member(self, node_id: int) -> stateful_set.Member:
        return stateful_set.Member(node_id, 1, self.identity)

    def _hashes(self, node_id: int) -> Any:
        return stateful_set.hashes(OWNER, self.spec, self._member(node_id))

    def _incarnation(self, node_id: int) -> Incarnation:
        member = self.members[node_id]
        pod = sound_pod(
            node_id,
            member.created_at,
            uid=f"pod-{node_id}-{member.pods}",
            restart_hash=member.made_from,
            ready_since=member.created_at,
        )
        return sound_member(
            node_id,
            FIRST_AT - 5000,
            template_hash=member.template,
            pod=replace(pod, **member.pod),
        )


def proven(**update: Any) -> UpdatedQuorum:
    """What all members run is written down."""
    world = UpdatedQuorum(image="r/n:1", config={"a": "1"}, update=update)
    world.settle()
    assert world.identity.update is not None
    return world
