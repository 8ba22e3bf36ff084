"""The fast path to the record of a smaller ISR gives the result of the general one."""

from dataclasses import replace
from uuid import UUID

from hypothesis import example, given
from hypothesis import strategies as st

from quorum_node.controller.partition_change import (
    ChangeRules,
    Circumstances,
    Wanted,
    change_partition,
    shrink_isr,
)
from quorum_node.controller.partition_leader import Election
from quorum_node.image.partition import Partition, normal
from quorum_node.records.metadata import NO_LEADER, decode_metadata, encode_metadata

TOPIC = UUID(int=77)
DIRECTORY = UUID(int=200)
REPLICAS = (1, 2, 3, 4)
some = st.sets(st.sampled_from(REPLICAS)).map(lambda found: tuple(sorted(found)))


@st.composite
def partitions(draw: st.DrawFn) -> Partition:
    """Any partition that a log may contain, also those that no controller of ours would write."""
    replicas = tuple(draw(st.permutations(REPLICAS)))[: draw(st.integers(1, 4))]
    rarely = st.one_of(st.just(()), st.just(()), some)
    partition = Partition(
        partition_id=3,
        topic_id=TOPIC,
        replicas=replicas,
        isr=tuple(each for each in draw(st.permutations(REPLICAS)) if draw(st.booleans())),
        removing_replicas=draw(rarely),
        adding_replicas=draw(rarely),
        leader=draw(st.sampled_from((NO_LEADER, *REPLICAS))),
        leader_recovery_state=draw(st.sampled_from((0, 1))),
        leader_epoch=5,
        partition_epoch=9,
        directories=(DIRECTORY,) * len(replicas),
        eligible_leader_replicas=draw(rarely),
        last_known_elr=draw(rarely),
    )
    return normal(partition)


PLAIN = Partition(
    partition_id=3,
    topic_id=TOPIC,
    replicas=(1, 2, 3),
    isr=(1, 2, 3),
    leader=1,
    leader_epoch=5,
    partition_epoch=9,
    directories=(DIRECTORY,) * 3,
)


@given(
    partitions(),
    some,
    some,
    st.sampled_from(Election),
    st.builds(ChangeRules, st.booleans(), st.booleans(), st.booleans()),
    st.integers(1, 3),
)
@example(PLAIN, (2, 3), (2, 3), Election.ONLINE, ChangeRules(), 1)
@example(PLAIN, (1, 3), (1, 2, 3), Election.ONLINE, ChangeRules(), 1)
@example(PLAIN, (1, 2, 3), (1, 2, 3), Election.ONLINE, ChangeRules(), 1)
@example(PLAIN, (3,), (), Election.UNCLEAN, ChangeRules(), 1)
@example(
    replace(PLAIN, eligible_leader_replicas=(2,)), (1, 3), (1, 3), Election.ONLINE, ChangeRules(), 1
)
@example(PLAIN, (1, 3), (1, 3), Election.ONLINE, ChangeRules(eligible_leader_replicas=True), 3)
@example(PLAIN, (1, 3), (1, 3), Election.ONLINE, ChangeRules(eligible_leader_replicas=True), 2)
@example(replace(PLAIN, adding_replicas=(3,)), (1, 2, 3), (1,), Election.ONLINE, ChangeRules(), 1)
@example(PLAIN, (1, 2), (1, 2), Election.ONLINE, ChangeRules(bump_on_shrink=True), 1)
@example(replace(PLAIN, leader=2), (1, 2), (1, 2), Election.PREFERRED, ChangeRules(), 1)
def test_fast_path_equals_the_general_path(
    now: Partition,
    staying: tuple[int, ...],
    acceptable: tuple[int, ...],
    election: Election,
    rules: ChangeRules,
    min_isr: int,
) -> None:
    isr = tuple(each for each in now.isr if each in staying)
    given = Circumstances(
        is_acceptable=acceptable.__contains__,
        default_directory=lambda _: DIRECTORY,
        election=election,
        min_isr=min_isr,
        rules=rules,
    )
    long = change_partition(TOPIC, 3, now, Wanted(isr=isr), given)
    assert shrink_isr(TOPIC, 3, now, isr, given) == long
    if long is not None:
        assert decode_metadata(encode_metadata(long, 2)) == long
