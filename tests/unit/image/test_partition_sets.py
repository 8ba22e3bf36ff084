"""A set of partitions beside Python's."""

from hypothesis import given
from hypothesis import strategies as st

from quorum_node.image.partition_sets import IndexKey, PartitionSet, PartitionSetChanges

NUMBERS = st.one_of(
    st.integers(0, 3), st.integers(254, 258), st.integers(-(1 << 31), (1 << 31) - 1)
)
KEYS = st.tuples(st.sampled_from([5, 6, 1 << 127]), NUMBERS)


@given(st.lists(st.lists(KEYS, max_size=12), max_size=12))
def test_random_changes_of_a_set(runs: list[list[IndexKey]]) -> None:
    """What is in it is removed, what is not is added."""
    sets, plain = PartitionSet(), set[IndexKey]()
    for run in runs:
        changes, kept, before = PartitionSetChanges(sets), sets, sorted(plain)
        for key in run:
            if key in plain:
                changes.remove(*key)
            else:
                changes.add(*key)
            plain ^= {key}
        sets = changes.finish()
        assert sorted(kept) == before
        assert sorted(sets) == sorted(plain)
        assert len(sets) == len(plain)
    changes = PartitionSetChanges(PartitionSet())
    for key in plain:
        changes.add(*key)
    assert changes.finish() == sets, "equal sets have different forms"
    assert PartitionSetChanges(sets).finish() is sets
