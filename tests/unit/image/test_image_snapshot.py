"""Snapshots of the image: the same records for the same state, whatever its history; a loaded one is equal."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum_node.image import ordering
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.resource_types import BROKER, TOPIC
from quorum_node.records.metadata import (
    ConfigRecord,
    FeatureLevelRecord,
    MetadataMessage,
    decode_metadata,
)
from support.metadata_records import config, level

CHANGES = st.builds(
    ConfigRecord,
    resource_type=st.sampled_from([TOPIC, BROKER]),
    resource_name=st.sampled_from(["", "a", "b", "é"]),
    name=st.sampled_from(["x", "y", "z"]),
    value=st.none() | st.sampled_from(["", "1", "2"]),
)
LEVELS = st.builds(
    FeatureLevelRecord,
    name=st.sampled_from(["metadata.version", "other"]),
    feature_level=st.integers(0, 3),
)
HISTORIES = st.lists(CHANGES | LEVELS, max_size=40)


def image_of(records: list[MetadataMessage]) -> ClusterImage:
    return ClusterImage().replay_all(records)


def snapshot(image: ClusterImage) -> list[bytes]:
    return list(image.snapshot_records())


@pytest.mark.requirement("K853-08")
@given(history=HISTORIES)
def test_loaded_snapshot_gives_the_same_state(history: list[MetadataMessage]) -> None:
    image = image_of(history)
    records = snapshot(image)
    again = ClusterImage().replay_all(decode_metadata(data) for data in records)
    assert again == image
    assert snapshot(again) == records


@pytest.mark.requirement("K595-30")
@given(history=HISTORIES, seed=st.integers(0, 99))
def test_state_gives_the_same_records_for_any_history(
    history: list[MetadataMessage], seed: int
) -> None:
    image = image_of(history)
    entries: list[MetadataMessage] = [config(*key, value) for key, value in image.configs.entries()]
    random.Random(seed).shuffle(entries)
    levels = [level(name, image.features.level(name)) for name in ("other", "metadata.version")]
    again = image_of([*entries, *levels])
    assert again == image
    assert snapshot(again) == snapshot(image)


def test_sorting_in_slices_equals_sorting_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [f"{n:04d}" for n in range(1000)]
    shuffled = random.Random(3).sample(keys, len(keys))
    image = image_of([config(TOPIC, name, name, "v") for name in shuffled])
    whole = snapshot(image)
    monkeypatch.setattr(ordering, "_SORTED_AT_ONCE", 7)
    assert snapshot(image) == whole
    names = [decode_metadata(data) for data in whole]
    assert [r.name for r in names if isinstance(r, ConfigRecord)] == keys
