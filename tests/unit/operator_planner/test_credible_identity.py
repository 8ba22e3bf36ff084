"""Which identities count beside what the StatefulSets prove, in every stage of a migration."""

import pytest

from quorum_operator.planner.credible_identity import FormationEvidence, credible_identities
from quorum_operator.planner.observed import Identity
from quorum_operator.planner.tls_stage import TlsStage

PLAIN, ACCEPTING, DIALLING, CLOSED = TlsStage
pytestmark = pytest.mark.requirement("OP-01")


def identity(stage: TlsStage = PLAIN, index: int = 1, *, formed: bool = True) -> Identity:
    return Identity(index, f"c{index}", 1, "U1", 3, formed=formed, migration=stage)


def member(stage: TlsStage = PLAIN, formation: int = 1, **more: bool) -> FormationEvidence:
    return FormationEvidence(formation, f"c{formation}", stage, **more)


@pytest.mark.parametrize(
    ("recorded", "stages"),
    [
        (PLAIN, (PLAIN, PLAIN)),
        (ACCEPTING, (PLAIN, PLAIN)),
        (ACCEPTING, (PLAIN, ACCEPTING)),
        (DIALLING, (ACCEPTING, ACCEPTING)),
        (DIALLING, (ACCEPTING, DIALLING)),
        (CLOSED, (DIALLING, DIALLING)),
        (CLOSED, (DIALLING, CLOSED)),
        (CLOSED, (CLOSED, CLOSED)),
        (ACCEPTING, (DIALLING, DIALLING)),
        (ACCEPTING, (DIALLING, ACCEPTING)),
        (PLAIN, (ACCEPTING, ACCEPTING)),
        (PLAIN, (ACCEPTING, PLAIN)),
    ],
)
def test_each_stage_of_a_migration_and_its_reversal_is_accepted_if_recorded(
    recorded: TlsStage, stages: tuple[TlsStage, ...]
) -> None:
    members = [member(each, migrated=each is not PLAIN) for each in stages]
    (found,), unknown = credible_identities([identity(recorded)], members)
    assert (found.tls_stage, found.tls, unknown) == (recorded, False, frozenset())


def test_stopped_member_keeps_its_template_and_is_no_evidence() -> None:
    members = [member(DIALLING, migrated=True), member(PLAIN, runs=False)]
    (found,), _ = credible_identities([identity(DIALLING)], members)
    assert found.tls_stage is DIALLING


@pytest.mark.parametrize("formed", [True, False])
def test_later_formation_counts_only_if_the_earlier_one_never_formed(formed: bool) -> None:
    """Its founder may still form it, and the operator gave it up."""
    both = [identity(formed=formed), identity(index=2, formed=False)]
    found, unknown = credible_identities(both, [member(may_found=not formed), member()])
    assert [each.index for each in found] == ([1] if formed else [1, 2])
    assert unknown == (frozenset({2}) if formed else frozenset())


def test_later_formation_with_members_counts() -> None:
    both = [identity(), identity(index=2)]
    found, unknown = credible_identities(both, [member(), member(formation=2)])
    assert ([each.index for each in found], unknown) == ([1, 2], frozenset())


@pytest.mark.parametrize("ids", [("c9", "c9"), ("c9", "c1"), ("c9", None)])
def test_different_cluster_id_is_damage_only_if_all_members_agree(
    ids: tuple[str | None, str | None],
) -> None:
    members = [FormationEvidence(1, each, PLAIN) for each in ids]
    found, _ = credible_identities([identity()], members)
    assert bool(found) == (len(set(ids)) > 1)
