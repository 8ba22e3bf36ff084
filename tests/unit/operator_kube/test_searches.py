"""When a quorum's parts are searched for beyond their labels: when something is missing, and not all the time."""

from dataclasses import replace

from quorum_operator.kube.observe import Cluster
from quorum_operator.kube.searches import MOST_KNOWN, PERIOD_S, Searches
from quorum_operator.planner.observed import (
    Identity,
    Incarnation,
    Key,
    QuorumView,
    ReplicaView,
    StorageChoice,
)
from quorum_operator.status_crd import MemberStatus, MetadataQuorumStatus
from support.observed_quorum import view_of

EARLIER = MetadataQuorumStatus(
    members=[
        MemberStatus(id=1, incarnation=2),
        MemberStatus(id=2),
        MemberStatus(id=3, incarnation=1, pod="q-3-1-0"),
    ]
)


def member(node_id: int) -> Incarnation:
    name = f"q-{node_id}-1"
    return Incarnation(
        node_id, 1, name, name, "1", 0.0, 1, StorageChoice("1Gi", None), uuid=f"U{node_id}"
    )


def cluster(*ids: int) -> Cluster:
    return Cluster(
        identities=(Identity(1, "c1", 1, "U1", 3, formed=True),),
        stale_objects=(),
        token=None,
        label_drift=(),
        foreign_objects=(),
        unlabelled=frozenset(),
        strays=(),
        incarnations=tuple(member(each) for each in ids),
        used_numbers={},
        templates={},
        storage_class_exists=True,
    )


def view(*ids: int) -> QuorumView:
    voters = tuple(ReplicaView(Key(each, f"U{each}"), True, True) for each in ids)
    return view_of(voters, leader=voters[0].key)


def test_full_search_runs_once_while_all_voters_are_found() -> None:
    searches, found = Searches(), cluster(1, 2, 3)
    wide = []
    for second in range(100):
        wide.append(searches.begin(EARLIER, float(second)).wide)
        searches.end(found, view(1, 2, 3))
    assert wide == [True, *99 * [False]]


def test_last_status_gives_the_names_to_read() -> None:
    search = Searches().begin(EARLIER, 0.0)
    assert search.known == {(1, 2), (3, 1)}
    assert search.with_pod == {(3, 1)}


def test_edited_status_with_thousands_of_members_does_not_cause_as_many_reads() -> None:
    """Reconciles would exceed their time limit, and the status would never be corrected."""
    forged = [MemberStatus(id=each, incarnation=1) for each in range(1, 20_000)]
    assert len(Searches().begin(MetadataQuorumStatus(members=forged), 0.0).known) == MOST_KNOWN


def test_missing_voter_is_searched_for_periodically() -> None:
    for found, seen in (
        (cluster(1, 2), view(1, 2, 3)),
        (cluster(1, 2, 3), None),
        (replace(cluster(1, 2, 3), identities=()), view(1, 2, 3)),
    ):
        searches = Searches()
        wide = []
        for second in range(30):
            wide.append(searches.begin(EARLIER, float(second)).wide)
            searches.end(found, seen)
        assert [at for at, is_wide in enumerate(wide) if is_wide] == [0, PERIOD_S, 2 * PERIOD_S]


def test_object_found_by_a_full_search_is_read_by_name_afterwards() -> None:
    searches = Searches()
    searches.begin(EARLIER, 0.0)
    searches.end(replace(cluster(1, 2, 3), unlabelled=frozenset({(7, 4)})), view(1, 2, 3))
    for second in (1.0, 2.0):
        search = searches.begin(EARLIER, second)
        assert (7, 4) in search.known
        assert not search.wide
        searches.end(cluster(1, 2, 3), view(1, 2, 3))


def test_name_used_by_another_object_triggers_a_full_search() -> None:
    searches = Searches()
    searches.begin(EARLIER, 0.0)
    searches.end(cluster(1, 2, 3), view(1, 2, 3))
    searches.widen()
    assert searches.begin(EARLIER, 0.1).wide
