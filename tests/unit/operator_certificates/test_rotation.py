"""Every member trusts every other at every moment, whatever is lost, damaged, delayed or killed; in the end all is renewed."""

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from quorum_operator.certificates import issuing, rotation, steps
from quorum_operator.certificates.facts import Loaded, Seen
from quorum_operator.certificates.known import known_authorities
from quorum_operator.certificates.lifetimes import AUTHORITY_S
from support.modelled_certificates import OWNER, Authorities, Certificates, days

NAMES = [f"q-{number}-1" for number in (1, 2, 3)]
names = st.sampled_from(NAMES)
turns = st.one_of(
    st.just(("step", "")),
    st.just(("step", "")),
    st.tuples(st.sampled_from(("bundle", "pair")), names),
)
"""Half of them the operator's."""
spoiled = st.sampled_from(("cut off", "no key", "another key", "garbage"))


class Rotation(RuleBasedStateMachine):
    """Random acts on the model; a step may be carried out long after it was planned, or never."""

    def __init__(self) -> None:
        super().__init__()
        self.world = Certificates()
        self.world.work(30)
        assert self.world.settled
        self.late: tuple[steps.Step, Authorities] | None = None

    @initialize(requested=st.booleans())
    def begun(self, requested: bool) -> None:
        self.world.rotation_requested = requested

    @rule(acts=st.lists(turns, min_size=25, max_size=60))
    def repeated_work(self, acts: list[tuple[str, str]]) -> None:
        """The operator does a step, or a process finds what is in its files: in any order, some of them late."""
        for act, name in acts:
            if act == "step":
                self.world.carry_out(self.world.plan())
            elif act == "bundle":
                self.world.load_bundle(name)
            else:
                self.world.load_pair(name)
            assert self.world.trust_failures() == [], act

    @rule()
    def operator_is_held_up(self) -> None:
        """Creations rest on the lease; what is bound to a version may come late."""
        planned, seen = self.world.plan(), copy.deepcopy(self.world.authorities)
        self.late = (planned, seen) if getattr(planned, "version", "") else None

    @rule()
    def its_write_arrives(self) -> None:
        if self.late is not None:
            self.world.carry_out(*self.late)
        self.late = None

    @rule(name=names)
    def restarted(self, name: str) -> None:
        self.world.stop(name)
        self.world.start(name)

    @rule(name=names)
    def stopped(self, name: str) -> None:
        self.world.stop(name)

    @rule(name=names)
    def started(self, name: str) -> None:
        self.world.start(name)

    @rule(name=names, silent=st.booleans())
    def cut_off_from_the_operator(self, name: str, silent: bool) -> None:
        if (process := self.world.running.get(name)) is not None:
            process.silent = silent

    @rule(name=names)
    def another_leader(self, name: str) -> None:
        self.world.leader = name

    @rule(number=st.floats(0, 40), skew=st.floats(-1, 1))
    def time_passes(self, number: float, skew: float) -> None:
        self.world.now += days(number)
        self.world.skew_s = days(skew)

    @rule()
    def another_authority_is_requested(self) -> None:
        self.world.rotation_requested = True

    @rule(name=names)
    def leaf_secret_is_deleted(self, name: str) -> None:
        self.world.leaves.pop(name, None)

    @rule(place=st.integers(0, 5))
    def authority_secret_is_deleted(self, place: int) -> None:
        numbers = sorted(self.world.authorities)
        if numbers:
            del self.world.authorities[numbers[place % len(numbers)]]

    @rule(place=st.integers(0, 5))
    def retired_by_hand(self, place: int) -> None:
        numbers = sorted(self.world.authorities, reverse=True)
        if numbers:
            self.world.retire(numbers[place % len(numbers)])

    @rule()
    def trust_is_deleted(self) -> None:
        self.world.trust = None

    @rule(name=names, how=spoiled)
    def leaf_secret_is_spoiled(self, name: str, how: str) -> None:
        if name in self.world.leaves:
            self.world.spoil(self.world.leaves[name], how)

    @rule(how=spoiled)
    def authority_secret_is_spoiled(self, how: str) -> None:
        if self.world.authorities:
            self.world.spoil(self.world.authorities[max(self.world.authorities)], how)

    @invariant()
    def all_trust_each_other(self) -> None:
        assert self.world.trust_failures() == []

    def teardown(self) -> None:
        """Undisturbed it comes to its end: one authority, everything valid, signed by it, and loaded."""
        world = self.world
        world.skew_s = 0.0
        for process in world.running.values():
            process.silent = False
        for _ in range(150):
            world.work(1)
            assert world.trust_failures() == []
            # Certificates loaded by processes since the last step may require another one.
            if world.settled and isinstance(world.plan(), steps.Settled):
                break
        assert world.settled, f"{world.plan()}"
        seen = world.seen()
        assert seen.trust is not None
        (authority,) = seen.trust
        assert set(world.running) == set(NAMES)
        for process in world.running.values():
            assert process.bundle == (authority,)
            assert process.certificate.validity.not_after > world.now


TestRotation = Rotation.TestCase
TestRotation.settings = settings(
    max_examples=20,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@pytest.mark.long
class TestRotationLong(Rotation.TestCase):
    settings = settings(
        max_examples=400,
        stateful_step_count=80,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )


def settled(members: int = 3) -> Certificates:
    world = Certificates(members)
    world.work(40)
    assert world.settled
    return world


def authority(world: Certificates) -> str:
    (only,) = world.seen().trust or ()
    return only.common_name


def test_new_quorum_gets_all_certificates_at_once() -> None:
    world = settled()
    assert authority(world) == "quorum CA 1"
    assert set(world.leaves) == {*NAMES, "admin"}
    assert world.trust_failures() == []


def test_no_certificate_expires_in_twelve_years_and_the_authority_is_rotated_twice() -> None:
    world = settled()
    generations = []
    while world.now < 1_800_000_000.0 + days(12 * 365):
        world.now += days(14)
        world.work(60)
        assert world.settled
        assert world.trust_failures() == []
        for process in world.running.values():
            assert process.certificate.validity.not_after > world.now + days(15)
        if not generations or generations[-1] != authority(world):
            generations.append(authority(world))
    assert generations == ["quorum CA 1", "quorum CA 2", "quorum CA 3"]


def test_certificates_expired_after_a_year_without_operator_are_renewed_through_the_secrets() -> (
    None
):
    world = settled()
    world.now += days(365)
    for process in world.running.values():
        process.silent = True  # the operator's handshake with an expired certificate fails
    for _ in range(20):
        world.carry_out(world.plan())
    for name in NAMES:
        world.load_pair(name)
        world.running[name].silent = False
    world.work(30)
    assert world.settled
    assert all(each.certificate.validity.not_after > world.now for each in world.running.values())
    assert authority(world) == "quorum CA 1"


def test_authority_expired_after_six_years_is_replaced_by_a_new_one() -> None:
    world = settled()
    world.now += AUTHORITY_S + days(300)
    for process in world.running.values():
        process.silent = True
    for _ in range(40):
        world.carry_out(world.plan())
    for name in NAMES:
        world.stop(name)
        world.start(name)
    world.work(60)
    assert world.settled
    assert authority(world) == "quorum CA 2"


def test_silent_member_delays_the_authority_but_not_leaf_renewals_of_others() -> None:
    world = settled()
    world.running[NAMES[2]].silent = True
    world.rotation_requested = True
    world.work(20)
    step = world.plan()
    assert isinstance(step, steps.WaitFor)
    assert step.reason == f"authority 2 waits until {NAMES[2]} trusts it"
    before = {name: world.running[name].certificate for name in NAMES}
    world.now += days(61)
    world.work(20)
    assert all(world.running[name].certificate != before[name] for name in NAMES)
    world.running[NAMES[2]].silent = False
    world.work(40)
    assert world.settled
    assert authority(world) == "quorum CA 2"


def test_authority_that_a_silent_member_may_still_present_stays_trusted() -> None:
    """It trusts both, and was cut off from the operator before it loaded its new certificate."""
    world = settled()
    world.rotation_requested = True
    while not isinstance(world.plan(), steps.BeginSigning):
        world.carry_out(world.plan())
        for name in NAMES:
            world.load_bundle(name)
    world.carry_out(world.plan())
    late = world.running[NAMES[2]]
    late.silent = True
    for _ in range(30):
        world.carry_out(world.plan())
        for name in NAMES[:2]:
            world.load_bundle(name)
            world.load_pair(name)
        assert world.trust_failures() == []
    step = world.plan()
    assert isinstance(step, steps.WaitFor)
    assert step.reason == "authority 1 is kept until no member can present its certificates"
    world.load_pair(NAMES[2])
    late.silent = False
    world.work(30)
    assert world.settled
    assert authority(world) == "quorum CA 2"


def marked(world: Certificates) -> list[int]:
    return [each.generation for each in world.seen().authorities if each.retired]


def test_signing_authority_that_a_user_marks_as_retired_goes_on_signing() -> None:
    world = settled()
    before = {name: world.running[name].certificate for name in NAMES}
    world.retire(1)
    for _ in range(20):
        world.work(1)
        assert world.trust_failures() == []
    assert world.settled
    assert authority(world) == "quorum CA 1"
    assert {name: world.running[name].certificate for name in NAMES} == before
    assert marked(world) == []
    world.rotation_requested = True
    for _ in range(40):
        world.work(1)
        assert world.trust_failures() == []
    assert authority(world) == "quorum CA 2"
    assert marked(world) == [1]


def test_single_secret_or_silent_member_does_not_restore_trust_in_a_retired_authority() -> None:
    world = settled()
    pair = world.leaves[NAMES[0]]
    world.rotation_requested = True
    world.work(60)
    assert marked(world) == [1]
    world.leaves[NAMES[0]] = copy.deepcopy(pair)
    world.running[NAMES[1]].silent = True
    for _ in range(10):
        world.work(1)
        assert authority(world) == "quorum CA 2"
    assert marked(world) == [1]


def test_authority_that_a_user_marks_as_retired_during_a_rotation_stays_trusted() -> None:
    """A member has not loaded its certificate of the next authority yet, and does not answer."""
    world = settled()
    world.rotation_requested = True
    while not isinstance(world.plan(), steps.BeginSigning):
        world.carry_out(world.plan())
        for name in NAMES:
            world.load_bundle(name)
    world.carry_out(world.plan())
    world.running[NAMES[2]].silent = True
    for _ in range(20):
        world.carry_out(world.plan())
        for name in NAMES[:2]:
            world.load_pair(name)
    assert {world.running[name].certificate.issuer[:15] for name in NAMES[:2]} == {
        "CN=quorum CA 2,"
    }
    assert world.running[NAMES[2]].certificate.issuer.startswith("CN=quorum CA 1,")
    world.retire(1)
    for _ in range(10):
        world.carry_out(world.plan())
        for name in NAMES:
            world.load_bundle(name)
        assert world.trust_failures() == []


def test_leaf_pairs_are_renewed_one_at_a_time_and_the_leader_last() -> None:
    world = settled()
    world.leader = NAMES[0]
    world.now += days(61)
    order = []
    for _ in range(30):
        step = world.plan()
        if isinstance(step, steps.WriteLeaf):
            order.append(step.holder.name)
            world.carry_out(step)
            waiting = world.plan()
            if step.holder.name in NAMES and len(order) < 3:
                assert isinstance(waiting, steps.WaitFor), waiting
                assert "has not loaded its new certificate" in waiting.reason
            world.work(0)
            for name in NAMES:
                world.load_pair(name)
        else:
            world.carry_out(step)
    assert order == [NAMES[1], NAMES[2], NAMES[0]]


@pytest.mark.parametrize(("stopped", "has_pair"), [(True, False), (False, False), (True, True)])
def test_member_that_needs_a_pair_of_the_next_authority_to_start_does_not_block_the_rotation(
    stopped: bool, has_pair: bool
) -> None:
    """Key of the authority and Secret of a member are lost, and its container has ended: no other source has a pair for it."""
    world = settled()
    world.authorities.clear()
    if not has_pair:
        del world.leaves[NAMES[2]]

    def seen() -> Seen:
        now = world.seen()
        down = replace(now.members[2], loaded=None, stopped=stopped)
        return replace(now, members=(*now.members[:2], down))

    for _ in range(20):
        step = rotation.plan(seen())
        if isinstance(step, steps.WaitFor | steps.BeginSigning):
            break
        world.carry_out(step)
        for name in NAMES[:2]:
            world.load_bundle(name)
    assert isinstance(step, steps.BeginSigning) is (stopped and not has_pair), step


def test_brokers_without_the_next_authority_block_it_until_shortly_before_expiry() -> None:
    world = settled()
    world.rotation_requested = True
    world.work(3)
    seen = world.seen()

    def next_step(**changes: Any) -> steps.Step:
        return rotation.plan(replace(seen, **changes))

    for _ in range(10):
        step = next_step(unaware=("broker 101",))
        if isinstance(step, steps.WaitFor):
            break
        world.carry_out(step)
        for name in NAMES:
            world.load_bundle(name)
        seen = world.seen()
    assert isinstance(step, steps.WaitFor)
    assert step.brokers == ("broker 101",)
    assert "have been restarted: broker 101" in step.reason
    confirmed = next_step(unaware=("broker 101",), confirmed=True)
    assert isinstance(confirmed, steps.BeginSigning)


def test_single_secret_or_member_does_not_prove_an_authority() -> None:
    """Who may write one Secret, or holds one member's key, must not become trusted by all."""
    world = settled()
    seen = world.seen()
    foreign = issuing.new_authority(OWNER, 9, world.now)
    mine = issuing.issue(OWNER, world.members[0], foreign, world.now)
    bad = replace(seen.leaves[0], certificate=mine.certificate, bundle=(foreign.certificate,))
    secret = replace(seen, leaves=(bad, *seen.leaves[1:]))
    reported = Loaded(
        mine.certificate.fingerprint, foreign.certificate.fingerprint, (foreign.certificate,)
    )
    member = replace(seen.members[0], loaded=reported)
    report = replace(seen, members=(member, *seen.members[1:]))
    trust = replace(seen, trust=(*(seen.trust or ()), foreign.certificate))
    for attacked in (secret, report, trust):
        assert foreign.certificate not in known_authorities(attacked)
        step = rotation.plan(attacked)
        if isinstance(step, steps.ApplyTrust | steps.WriteBundle | steps.WriteLeaf):
            assert foreign.certificate not in step.bundle


def test_authority_and_all_secrets_are_restored_from_the_reports_of_members() -> None:
    world = settled()
    world.authorities.clear()
    world.leaves.clear()
    world.trust = None
    for _ in range(60):
        world.work(1)
        assert world.trust_failures() == []
    assert world.settled
    assert authority(world) == "quorum CA 2"
