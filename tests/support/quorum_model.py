"""A pure model of Kubernetes and of a quorum, for property tests of the operator's planner.

Models only what is needed: StatefulSets become pods, empty disks are formatted, observers catch up, a leader exists while a majority of
the voters lives. `apply` does a step as the real parts would (create-only, compare-and-set) and checks at that moment that it was safe.
The safety rules are implemented here a second time, on purpose, and not imported from the planner.
"""

import random
from dataclasses import replace

from quorum_node.survivor import Survivor
from quorum_operator.crd import ReplacementOrder
from quorum_operator.planner import step as steps
from quorum_operator.planner.claim_marks import merged
from quorum_operator.planner.object_facts import Suspicion, Templates
from quorum_operator.planner.observed import (
    ClaimFacts,
    HeldLog,
    Identity,
    Incarnation,
    Key,
    NodeReport,
    Observation,
    PodFacts,
    QuorumView,
    StorageChoice,
    TargetVoter,
    VolumeFacts,
    Wanted,
)
from support.model_rules import MOVES, Unsafe, check_unlatching, majority
from support.modelled_claims import (
    RESOURCE_UID,
    born_with,
    claim_of,
    lone_claims,
    mark_before,
    rebuild,
)
from support.modelled_description import described_view, hinted_voters
from support.modelled_identity import founding_of, permits, rebuild_identity
from support.modelled_pods import Disk, Pod, Set
from support.modelled_status import suspicions
from support.modelled_target import pursue_target

STORAGE = StorageChoice("1Gi", None)


class Model:
    """The state around the planner. `rng` decides delays and refusals; the planner never sees it."""

    def __init__(self, rng: random.Random, wanted: Wanted) -> None:
        self.rng = rng
        self.wanted = wanted
        self.now = 1_000_000.0
        self.identities: list[Identity] = []
        self.born: dict[int, Identity] = {}  # every identity in its first form
        self.sets: dict[str, Set] = {}
        self.used: dict[int, int] = {}
        self.objects_stale = True
        self.restart_hash = "r0"
        self.voters: dict[int, list[Key]] = {}
        self.formed: dict[int, bool] = {}
        self.offset = 0
        self.epoch = 1
        self.leader: Key | None = None
        self.changes: list[tuple[str, Key]] = []
        self.target: tuple[TargetVoter, ...] | None = None  # set by a user, through AlterQuorum
        self.serial = 0
        self.lone: dict[str, Set] = {}  # the remains of deleted StatefulSets: their disks
        self.steps: list[steps.Step] = []
        self.suspected: dict[str, Suspicion] = {}
        self.resource_uid = RESOURCE_UID
        self.forgotten = False  # the resource is new: its status is empty

    # The present state.

    @property
    def index(self) -> int:
        return max(self.born, default=0)

    def identity(self, index: int) -> Identity:
        """The identity, or its first form if it is missing."""
        there = (each for each in self.identities if each.index == index)
        return next(there, self.born[index])

    def current_voters(self) -> list[Key]:
        return self.voters.get(self.index, [])

    def runs(self, each: Set) -> bool:
        pod = each.pod
        up = pod is not None and pod.exit_code is None and self.now >= pod.up_at
        up = up and pod is not None and pod.gone_at is None
        return up and each.disk.state == "ok"

    def set_of(self, key: Key) -> Set | None:
        formation = self.index
        for each in self.sets.values():
            if each.formation == formation and (each.node_id, each.disk.uuid) == key:
                return each
        return None

    def is_live(self, key: Key) -> bool:
        each = self.set_of(key)
        caught_up = each is not None and each.caught_up_at is not None
        return each is not None and self.runs(each) and caught_up

    def live(self) -> list[Key]:
        return [key for key in self.current_voters() if self.is_live(key)]

    def has_quorum(self) -> bool:
        voters = self.current_voters()
        return bool(voters) and len(self.live()) >= majority(len(voters))

    # Time.

    def tick(self, seconds: float) -> None:
        """One step of the controllers, kubelets and replication."""
        self.now += seconds
        for each in list(self.sets.values()):
            self._control(each)
        for each in self.sets.values():
            self._run_process(each)
        if not self.has_quorum():
            self.leader = None
        elif self.leader not in self.live():
            self.leader = min(self.live())
            self.epoch += 1
        for each in self.sets.values():
            self._replicate(each)
        pursue_target(self)

    def _control(self, each: Set) -> None:
        gone_at = each.pod.gone_at if each.pod is not None else None
        if each.replicas == 0 or (gone_at is not None and self.now >= gone_at):
            each.pod = None
        elif each.pod is None and each.disk.state != "host-gone":
            if each.disk.claim_deleting:
                each.disk = Disk()  # the claim went with its pod; a new, empty one is made
                each.caught_up_at = None
            self.serial += 1
            delay = self.rng.choice([0.5, 1.0, 3.0])
            self.serial += 1
            each.pod = Pod(f"pod-{self.serial}", self.now, self.now + delay)
            each.pod.recover = each.recover
            each.pod.restart_hash = self._restart_hash(each.recover)

    def _run_process(self, each: Set) -> None:
        pod, disk = each.pod, each.disk
        if pod is None or self.now < pod.up_at or disk.state == "mount-fails":
            return
        if disk.state == "failed":
            pod.exit_code = 74
        elif disk.state == "full":
            pod.exit_code = 73
        elif pod.exit_code == 73 or (pod.exit_code == 1):
            pod.exit_code = None
        if pod.exit_code is not None or disk.uuid is not None:
            return
        identity = self.born[each.formation]
        if permits(each):
            if each.formation in self.voters:
                raise Unsafe(f"{each.name} founds the cluster {identity.cluster_id} again")
            disk.uuid = identity.founder_uuid
            self.voters[each.formation] = [Key(each.node_id, disk.uuid)]
            self.formed[each.formation] = identity.initial_voters == 1
            each.caught_up_at = self.now
            self.offset += 3
        else:
            self.serial += 1
            disk.uuid = f"u{self.serial:020}A"

    def _replicate(self, each: Set) -> None:
        if each.formation != self.index or not self.runs(each) or each.disk.uuid is None:
            return
        if each.caught_up_at is None and self.leader is not None and self.rng.random() < 0.6:
            each.caught_up_at = self.now

    # Observation by the operator.

    def observe(self) -> Observation:
        seen = self._observe()
        self.suspected = suspicions(seen)
        return seen

    def _observe(self) -> Observation:
        return Observation(
            now=self.now,
            name="q",
            generation=1,
            wanted=self.wanted,
            identities=tuple(self.identities),
            stale_objects=("Service/q-nodes",) if self.objects_stale else (),
            resource_uid=self.resource_uid,
            incarnations=tuple(merged(self._incarnation(each)) for each in self.sets.values()),
            lone_claims=lone_claims(self),
            used_numbers=dict(self.used),
            templates={
                each.name: Templates(self._template(each), self._restart_hash(each.asked))
                for each in self.sets.values()
                if any(one.index == each.formation for one in self.identities)
            },
            view=self._view(),
            hinted_voters=hinted_voters(self),
            known_cluster_id=f"c{self.index}" if self.index and not self.forgotten else None,
            known_voters=0 if self.forgotten else len(self.current_voters()),
        )

    def _template(self, each: Set) -> str:
        may_format = each.founder and not self.identity(each.formation).formed
        return f"{self._restart_hash(each.asked)}-{may_format}"

    def _restart_hash(self, recover: Survivor | None) -> str:
        return self.restart_hash if recover is None else f"{self.restart_hash}, {recover}"

    def _incarnation(self, each: Set) -> Incarnation:
        disk = each.disk
        ready = self.runs(each)
        report = None
        if ready and disk.uuid is not None:
            formed = self.formed.get(each.formation, False) and each.caught_up_at is not None
            report = self._report(each, disk.uuid, formed)
        return Incarnation(
            node_id=each.node_id,
            number=each.number,
            name=each.name,
            uid=f"uid-{each.name}",
            resource_version=str(each.version),
            created_at=each.created_at,
            formation=each.formation,
            storage=each.storage,
            replicas=each.replicas,
            uuid=each.uuid,
            failed=each.failed,
            suspected=self.suspected.get(each.name),
            unlatched_at=tuple(each.unlatched_at),
            stopped=each.stopped,
            replaces=each.replaces,
            predecessor=each.predecessor,
            recovery=each.recovery,
            recovery_given_up=each.given_up,
            template_hash=each.template,
            cluster_id=f"c{each.formation}",
            founding=founding_of(self, each),
            rebuilt=each.rebuilt,
            pod=self._pod(each, ready),
            claim=self._claim(each),
            volume=VolumeFacts(
                f"pv-{each.name}", hosts=("h",), hosts_exist=disk.state != "host-gone"
            ),
            report=report,
        )

    def _report(self, each: Set, uuid: str, formed: bool) -> NodeReport:
        """Every replica that has caught up once is taken to have all records."""
        held = self.offset if each.caught_up_at is not None else 0
        voters = frozenset(self.voters.get(each.formation, []) if held else [])
        log = HeldLog(self.epoch, held, held, self.epoch, voters)
        return NodeReport(uuid, f"c{each.formation}", "follower", formed, True, "ok", None, log)

    def _claim(self, each: Set) -> ClaimFacts | None:
        """It is created together with the first pod, so it is missing for a moment."""
        if each.pod is None and each.disk.uuid is None:
            return None
        return claim_of(each)

    def _pod(self, each: Set, ready: bool) -> PodFacts | None:
        pod = each.pod
        if pod is None:
            return None
        mount_fails = each.disk.state == "mount-fails"
        return PodFacts(
            name=f"{each.name}-0",
            uid=pod.uid,
            created_at=pod.created_at,
            ip="10.0.0.1",
            ready=ready or pod.gone_at is not None,
            deleting=pod.gone_at is not None,
            running=not mount_fails,
            started=not mount_fails,
            waiting_reason="ContainerCreating" if mount_fails else None,
            exit_code=pod.exit_code,
            exit_at=self.now if pod.exit_code is not None else None,
            not_ready_since=None if ready else pod.created_at,
            mount_failed_at=self.now if mount_fails else None,
            restart_hash=pod.restart_hash,
        )

    def _view(self) -> QuorumView | None:
        return described_view(self)

    # Steps of the operator.

    def apply(self, step: steps.Step) -> None:
        """Do a step, and check that it was safe."""
        self.steps.append(step)
        mark_before(self, step)
        had_quorum = self.has_quorum()
        if not had_quorum and self.formed.get(self.index, False):
            self._check_hands_off(step)
        match step:
            case steps.CreateIdentity():
                self._create_identity(step)
            case steps.RebuildIdentity():
                rebuild_identity(self, step)
            case steps.ApplyObjects():
                self.objects_stale = False
            case steps.CreateMember():
                self._create_member(step)
            case steps.RebuildMember():
                rebuild(self, step)
            case steps.AddVoter(key, name, position):
                self._add(key, name, position)
            case steps.RemoveVoter(key, position):
                self._remove(key, position)
            case steps.TransferLeadership(leader, successor):
                assert leader == self.leader
                self.leader = successor
                self.epoch += 1
            case steps.RecordFormed(index):
                self.identities = [
                    replace(each, formed=True) if each.index == index else each
                    for each in self.identities
                ]
            case steps.RestartMember(pod, pod_uid):
                self._restart(pod, pod_uid)
            case steps.Wait() | steps.Nothing():
                pass
            case _:
                self._write_set(step)
        alone = isinstance(step, steps.RestartMember) and len(self.current_voters()) == 1
        if had_quorum and not self.has_quorum() and not alone:
            raise Unsafe(f"{step} took the majority away")

    def _check_hands_off(self, step: steps.Step) -> None:
        """A formed quorum without a majority must not be changed: everything that may still restore it stays as it is."""
        if isinstance(step, MOVES):
            raise Unsafe(f"{step} without a majority")
        if isinstance(step, steps.RestartMember):
            each = next(e for e in self.sets.values() if f"{e.name}-0" == step.pod)
            if self.runs(each):
                raise Unsafe(f"{step.pod} is deleted while it runs, without a majority")

    def _create_identity(self, step: steps.CreateIdentity) -> None:
        if any(each.index == step.index for each in self.identities):
            return
        if self.formed.get(self.index, False):
            raise Unsafe("a formed quorum formed again")
        founder = f"f{step.index:020}A"
        if step.index in self.born:
            raise Unsafe(f"the identity {step.index} that was deleted is made as another one")
        made = Identity(
            step.index, f"c{step.index}", step.founder_id, founder, step.initial_voters, False
        )
        self.identities.append(made)
        self.born[step.index] = made
        self.leader = None

    def _create_member(self, step: steps.CreateMember) -> None:
        made = Set(
            node_id=step.node_id,
            number=step.number,
            formation=step.formation,
            founder=step.founder,
            created_at=self.now,
            replaces=step.replaces,
            predecessor=step.predecessor,
            storage=self.wanted.storage,
        )
        if made.name in self.sets:
            return
        if self.used.get(step.node_id, 0) >= step.number:
            raise Unsafe(f"{made.name} would adopt the claim of an earlier incarnation")
        if step.founder:
            made.uuid = self.identity(step.formation).founder_uuid
        made.disk.marks = born_with(self, made)
        made.template = self._template(made)
        self.used[step.node_id] = step.number
        self.sets[made.name] = made

    def _check_change(self, position: steps.VotersPosition) -> None:
        if (position.offset, position.epoch) != (self.offset, self.epoch):
            raise Unsafe("the compare-and-set does not name the committed voters record")
        if self.target is not None:
            raise Unsafe("a voter is moved against a target that another client has set")

    def _add(self, key: Key, name: str, position: steps.VotersPosition) -> None:
        self._check_change(position)
        voters = self.voters[self.index]
        if key in voters or self.sets[name].uuid != key.uuid:
            raise Unsafe(f"{key} is a voter already, or is not recorded")
        if sum(1 for each in voters if each.id == key.id) > 1:
            raise Unsafe(f"id {key.id} would stand three times")
        exempt = len(voters) == 1 or not self.formed[self.index]
        live = len(self.live())
        if self.wanted.replacement_order is ReplacementOrder.ADD_FIRST:
            live += 1
        if not exempt and live < majority(len(voters) + 1):
            raise Unsafe(f"adding {key} with {live} of {len(voters)} voters live")
        if not self.is_live(key):
            raise Unsafe(f"{key} has not caught up")
        voters.append(key)
        self.offset += 1
        self.changes.append(("+", key))
        if len(voters) >= self.identity(self.index).initial_voters:
            self.formed[self.index] = True

    def _remove(self, key: Key, position: steps.VotersPosition) -> None:
        self._check_change(position)
        voters = self.voters[self.index]
        if key == self.leader:
            raise Unsafe("the leader was removed without handing over")
        before = len(self.live()) - majority(len(voters))
        voters.remove(key)
        after = len(self.live()) - majority(len(voters))
        if after < 0:
            raise Unsafe(f"removing {key} leaves no live majority")
        floor = max(0, (self.wanted.replicas - 1) // 2 - 1)
        if after < before and after < floor:
            raise Unsafe(f"removing {key} lowers the tolerance to {after}")
        self.offset += 1
        self.changes.append(("-", key))

    def _restart(self, pod: str, uid: str) -> None:
        each = next(e for e in self.sets.values() if f"{e.name}-0" == pod)
        if each.pod is not None and each.pod.uid == uid:
            self.crash_pod(each)

    def _write_set(self, step: steps.Step) -> None:
        target = step.target  # type: ignore[union-attr]
        each = self.sets.get(target.name)
        if each is None or str(each.version) != target.resource_version:
            return
        each.version += 1
        match step:
            case steps.UpdateMember():
                each.template, each.recover = self._template(each), each.asked
            case steps.RecordReplicaUuid(_, uuid):
                each.uuid = uuid
            case steps.LatchFailure(_, latch):
                self._check_latch(each)
                each.failed = latch
            case steps.Unlatch(_, latched_at):
                check_unlatching(each, list(self.sets.values()), self.current_voters())
                each.failed = None
                each.unlatched_at.append(latched_at)
            case steps.ScaleToZero(_, why):
                self._check_stop(each)
                each.replicas, each.stopped, each.pod = 0, why, None
            case steps.StartMember():
                each.replicas, each.stopped = 1, None
            case steps.DeleteIncarnation():
                self._check_stop(each)
                if each.replicas or each.failed is not None:
                    raise Unsafe(f"{each.name} is deleted while it runs, or was to be kept")
                del self.sets[each.name]

    def _check_latch(self, each: Set) -> None:
        emptied = each.uuid is not None and each.disk.uuid != each.uuid
        if each.disk.state in {"ok", "full"} and not emptied and not each.disk.healed:
            raise Unsafe(f"{each.name} is called failed, but its disk is {each.disk.state}")

    def _check_stop(self, each: Set) -> None:
        if each.formation < self.index:
            return
        if self.leader is None:
            raise Unsafe(f"{each.name} is stopped without a confirmed describe")
        key = Key(each.node_id, each.disk.uuid or "")
        if key in self.current_voters() and each.failed is None:
            raise Unsafe(f"{each.name} is stopped while it is a voter")

    # Failures.

    def fail_disk(self, each: Set, state: str) -> None:
        each.disk.state = state
        if state == "host-gone":
            each.pod = None
        elif state == "mount-fails" and each.pod is not None:
            each.pod.created_at = self.now
        elif each.pod is not None and state == "failed":
            each.pod.exit_code = 74

    def crash_pod(self, each: Set) -> None:
        """The pod is deleted or evicted; a new one is created after a while."""
        delay = self.rng.choice([0.0, 0.5, 3.0])
        if each.pod is None or not delay:
            each.pod = None
        elif each.pod.gone_at is None:
            each.pod.gone_at = self.now + delay
