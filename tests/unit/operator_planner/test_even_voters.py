"""What the condition EvenVoters says: what makes the number odd, and where it stands if that waits."""

from dataclasses import replace

import pytest

from quorum_operator.planner.observed import Key, ReplicaView
from quorum_operator.planner.plan import plan
from quorum_operator.planner.status import build_status
from quorum_operator.planner.step import Nothing, RemoveVoter, Step
from quorum_operator.status_crd import MetadataQuorumStatus
from support.observed_quorum import observation_of, sound_member, view_of

MEMBERS = [sound_member(number) for number in range(1, 5)]
VIEW = view_of([ReplicaView(Key(number, f"u{number}"), True, True) for number in range(1, 5)])


@pytest.mark.parametrize("paused", [False, True])
def test_even_voters_names_the_next_step_or_where_it_says_why_it_waits(paused: bool) -> None:
    seen = observation_of(MEMBERS, VIEW, size=3)
    seen = replace(seen, wanted=replace(seen.wanted, paused=paused))
    step: Step = plan(seen)
    status = build_status(seen, step, MetadataQuorumStatus(), "")
    (found,) = (each for each in status.conditions if each.type == "EvenVoters")
    assert found.status == "True"
    assert isinstance(step, Nothing if paused else RemoveVoter), step
    says = "the condition Progressing says what it waits for" if paused else "the next step makes"
    assert says in found.message
