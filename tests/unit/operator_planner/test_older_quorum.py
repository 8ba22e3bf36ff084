"""Old voters that return on a partitioned host after a recovery, and elect a leader: the operator ignores them."""

import asyncio
import random
from dataclasses import replace

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorum_node.api import QuorumDescription, ReplicaStatus, VotersPosition
from quorum_operator.planner.observed import Confirmation, Key, Observation, QuorumView, Wanted
from quorum_operator.planner.plan import plan
from quorum_operator.planner.status import build_status
from quorum_operator.planner.step import Nothing, Step, Wait
from quorum_operator.quorum_client import QuorumClient, Seen, describe_newest
from quorum_operator.status_crd import MetadataQuorumStatus
from support.modelled_description import replica_view
from support.modelled_pods import Disk, Pod, Set
from support.quorum_model import STORAGE
from support.recovery_model import RecoveryModel

pytestmark = pytest.mark.requirement("OP-07")
SETTINGS = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


class PartitionedHost(RecoveryModel):
    """`strays`: StatefulSets with pods on a host without connections; their processes run on the old disks.

    A kubelet without a connection stops no process, whatever the StatefulSet says.
    """

    def __init__(self, rng: random.Random, wanted: Wanted) -> None:
        super().__init__(rng, wanted)
        self.strays: set[str] = set()
        self.status = MetadataQuorumStatus()

    def _control(self, each: Set) -> None:
        if each.name not in self.strays:
            super()._control(each)

    def come_back(self, each: Set, uuid: str) -> None:
        """The pod of an old voter, with the disk that was considered lost."""
        self.strays.add(each.name)
        self.serial += 1
        each.disk = Disk(uuid=uuid)
        each.pod = Pod(f"stray-{self.serial}", self.now, self.now)

    def answer_of_the_older_members(self) -> QuorumView | None:
        """What a majority of the old voters confirms."""
        view = self._view()
        old = [each for each in self.sets.values() if each.name in self.strays]
        if view is None or not old:
            return None
        keys = [Key(each.node_id, each.disk.uuid or "") for each in old]
        return replace(
            view,
            leader=keys[0],
            epoch=view.epoch - (1 << 15),
            voters=tuple(replica_view(self, key) for key in keys),
        )

    def observe(self) -> Observation:
        """The answers as the operator's client classifies them, by the last status."""
        seen = super().observe()
        memory = Seen(self.status.cluster_id, self.status.newest_epoch or -1)
        answers = [
            each for each in (self.answer_of_the_older_members(), seen.view) if each is not None
        ]
        older = [each for each in answers if memory.is_older(each)]
        newer = [each for each in answers if not memory.is_older(each)]
        return replace(
            seen,
            view=newer[0] if newer else None,
            older_quorum=older[-1] if older else None,
        )

    def reconcile(self, times: int = 1) -> list[Step]:
        """As the operator: observe, plan, act, write the status."""
        taken = []
        for _ in range(times):
            self.tick(0.5)
            seen = self.observe()
            step = plan(seen)
            self.status = build_status(seen, step, self.status, "")
            self.apply(step)
            taken.append(step)
        return taken

    def settle(self) -> None:
        for _ in range(80):
            steps = self.reconcile(10)
            complete = len(self.live()) == len(self.current_voters()) == self.wanted.replicas
            if complete and isinstance(steps[-1], Nothing):
                return
        raise AssertionError(f"not settled: {self.current_voters()} {self.steps[-5:]}")


@SETTINGS
@given(seed=st.integers(0, 2**32))
def test_pods_of_fenced_voters_that_return_are_ignored_and_stay_fenced(seed: int) -> None:
    wanted = Wanted(3, STORAGE, debounce_s=5.0, max_replacements_per_hour=60)
    model = PartitionedHost(random.Random(seed), wanted)
    model.settle()
    old = {name: each.disk.uuid or "" for name, each in model.sets.items()}
    lost = [each for key in model.current_voters()[:2] if (each := model.set_of(key)) is not None]
    for each in lost:
        model.fail_disk(each, "host-gone")
    offer = None
    for _ in range(60):
        model.reconcile()
        loss = model.status.quorum_loss
        offer = None if loss is None else loss.offer
        if offer is not None:
            break
    assert offer is not None
    reported = Confirmation(offer.id, offer.uuid, offer.epoch, offer.end_offset)
    model.wanted = replace(model.wanted, recovery=reported)
    model.settle()
    assert model.recovered == 1
    voters, before = list(model.current_voters()), dict(model.sets)

    for each in lost:
        model.come_back(each, old[each.name])
    taken = model.reconcile(60)
    assert all(isinstance(step, Nothing | Wait) for step in taken), "they affect the plan"
    assert model.current_voters() == voters
    assert model.sets.keys() == before.keys()
    for each in lost:
        assert each.failed is not None, "the mark was removed"
        assert each.replicas == 0
    confirmed = next(each for each in model.status.conditions if each.type == "QuorumConfirmed")
    assert confirmed.status == "True", "the new quorum is still the one that counts"
    assert "voters from before a recovery" in confirmed.message

    model.strays.clear()  # the host reaches the API server again: its kubelet stops them
    model.reconcile(20)
    assert all(each.pod is None for each in lost)
    confirmed = next(each for each in model.status.conditions if each.type == "QuorumConfirmed")
    assert "before a recovery" not in confirmed.message


def described(leader: int, epoch: int, recovered_epoch: int) -> QuorumDescription:
    voter = ReplicaStatus(
        id=leader, uuid="u", log_end_offset=5, lag=0, fetching=True, caught_up=True
    )
    return QuorumDescription(
        cluster_id="c",
        leader_id=leader,
        leader_uuid="u",
        leader_epoch=epoch,
        high_watermark=5,
        log_end_offset=5,
        voters=[voter],
        observers=[],
        voters_position=VotersPosition(offset=1, epoch=1, committed=True),
        pending_change=False,
        own_epoch_committed=True,
        formed=True,
        initial_voters=1,
        confirmed=True,
        node_id=leader,
        recovered_epoch=recovered_epoch,
    )


@pytest.mark.parametrize(
    ("old", "believed"),
    [
        (described(2, 9, 0), 1),
        (described(2, 70_500, 0), 1),  # it has received the new epochs, but not the recovery
        (described(2, 70_001, 70_000), 2),  # a later leader of the same quorum
    ],
)
def test_operator_queries_further_nodes_after_an_answer_of_an_older_epoch(
    old: QuorumDescription, believed: int
) -> None:
    """The responses of two nodes, on a transport that replaces the network."""
    answers = {"10.0.0.2": old, "10.0.0.1": described(1, 70_000, 70_000)}

    def serve(request: httpx.Request) -> httpx.Response:
        body = answers[request.url.host].model_dump_json(by_alias=True)
        return httpx.Response(200, content=body)

    async def ask(seen: Seen) -> tuple[int | None, int | None]:
        async with httpx.AsyncClient(transport=httpx.MockTransport(serve)) as http:
            found = await describe_newest(QuorumClient(http), list(answers), seen)
        named = [each.leader.id if each is not None else None for each in (found.view, found.older)]
        return named[0], named[1]

    view, older = asyncio.run(ask(Seen("c", 70_000, 70_000)))
    assert (view, older) == (believed, 2 if believed == 1 else None)
    assert asyncio.run(ask(Seen())) == (2, None), "a node without the record can't decide"
