"""Snapshots of the image: frozen while it changes, the same records for the same state, loaded again."""

import random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum_node.records.metadata import (
    BEGIN_TRANSACTION,
    END_TRANSACTION,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnknownMetadata,
    decode_metadata,
)
from quorum_node.state import layered_values
from quorum_node.state.image import ConfigImage, ConfigKey
from quorum_node.state.resource_types import BROKER, TOPIC

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
    level=st.integers(0, 3),
)
HISTORIES = st.lists(CHANGES | LEVELS, max_size=40)


def image_of(records: list[MetadataRecord]) -> ConfigImage:
    image = ConfigImage()
    for offset, record in enumerate(records):
        image.replay(record)
        image.reached(offset + 1, 1, offset)
    return image


def snapshot(image: ConfigImage) -> list[bytes]:
    records = list(image.freeze().snapshot_records())
    assert image.thaw()
    return records


def loaded(records: list[bytes]) -> ConfigImage:
    image = ConfigImage()
    for data in records:
        image.replay(decode_metadata(data))
    return image


@pytest.mark.requirement("K853-08")
@given(history=HISTORIES)
def test_a_loaded_snapshot_is_the_state_again(history: list[MetadataRecord]) -> None:
    image = image_of(history)
    records = snapshot(image)
    again = loaded(records)
    assert list(again.entries()) == list(image.entries())
    for name in ("metadata.version", "other"):
        assert again.feature_level(name) == image.feature_level(name)
    assert snapshot(again) == records


@given(before=HISTORIES, meanwhile=HISTORIES, after=HISTORIES, pieces=st.integers(1, 5))
def test_a_frozen_image_stays_while_replay_goes_on(
    before: list[MetadataRecord],
    meanwhile: list[MetadataRecord],
    after: list[MetadataRecord],
    pieces: int,
) -> None:
    """Before, while and after the changes are moved down, reads see the newest state."""
    image = image_of(before)
    frozen = image.freeze()
    for record in meanwhile:
        image.replay(record)
    wanted = image_of(before + meanwhile)
    assert list(frozen.snapshot_records()) == snapshot(image_of(before))
    thawed = False
    while not thawed:
        assert list(image.entries()) == list(wanted.entries())
        thawed = image.thaw(pieces)
    assert not image.frozen
    for record in after:
        image.replay(record)
    wanted = image_of(before + meanwhile + after)
    assert list(image.entries()) == list(wanted.entries())
    assert snapshot(image) == snapshot(wanted)


def test_changes_go_on_while_others_are_moved_down() -> None:
    image = image_of([ConfigRecord(TOPIC, "a", str(n), "old") for n in range(10)])
    image.freeze()
    for n in range(10):
        image.replay(ConfigRecord(TOPIC, "a", str(n), "new"))
    image.thaw(4)
    for n in range(10):
        image.replay(ConfigRecord(TOPIC, "a", str(n), "newest"))
    while not image.thaw(3):
        pass
    assert set(image.resource(TOPIC, "a").values()) == {"newest"}


@pytest.mark.requirement("K595-30")
@given(history=HISTORIES, seed=st.integers(0, 99))
def test_one_state_gives_the_same_records_however_it_came_about(
    history: list[MetadataRecord], seed: int
) -> None:
    image = image_of(history)
    entries = [
        ConfigRecord(k.resource_type, k.resource_name, k.name, v) for k, v in image.entries()
    ]
    random.Random(seed).shuffle(entries)
    levels = [
        FeatureLevelRecord(name, image.feature_level(name))
        for name in ("other", "metadata.version")
    ]
    assert snapshot(image_of([*entries, *levels])) == snapshot(image)


def test_sorting_in_pieces_is_sorting(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [f"{n:04d}" for n in range(1000)]
    shuffled = random.Random(3).sample(keys, len(keys))
    image = image_of([ConfigRecord(TOPIC, name, name, "v") for name in shuffled])
    whole = snapshot(image)
    monkeypatch.setattr(layered_values, "_SORTED_AT_ONCE", 7)
    assert snapshot(image) == whole
    names = [decode_metadata(data) for data in whole]
    assert [r.name for r in names if isinstance(r, ConfigRecord)] == keys


def test_a_topic_that_is_removed_while_frozen() -> None:
    topic = TopicRecord("a", UUID(int=1))
    image = image_of([ConfigRecord(TOPIC, "a", "x", "1"), ConfigRecord(TOPIC, "b", "x", "1")])
    image.freeze()
    for record in (
        topic,
        ConfigRecord(TOPIC, "a", "y", "2"),
        RemoveTopicRecord(UUID(int=1)),
        ConfigRecord(TOPIC, "a", "z", "3"),
    ):
        image.replay(record)
    for thawed in (False, True):
        assert image.resource(TOPIC, "a") == {"z": "3"}
        assert [key for key, _ in image.entries()] == [
            ConfigKey(TOPIC, "a", "z"),
            ConfigKey(TOPIC, "b", "x"),
        ]
        if not thawed:
            assert image.thaw()


def test_no_snapshot_of_what_would_lose_something() -> None:
    begin, end = (
        UnknownMetadata(BEGIN_TRANSACTION, 0, b"\0"),
        UnknownMetadata(END_TRANSACTION, 0, b"\0"),
    )
    image = image_of([ConfigRecord(TOPIC, "a", "x", "1")])
    image.replay(begin)
    assert not image.is_whole
    with pytest.raises(AssertionError):
        image.freeze()
    image.replay(end)
    assert image.is_whole
    image.replay(UnknownMetadata(99, 0, b"?"))
    assert not image.is_whole


def test_an_image_becomes_another_all_at_once() -> None:
    image = image_of([ConfigRecord(TOPIC, "a", "x", "1")])
    frozen = image.freeze()
    image.replay(ConfigRecord(TOPIC, "a", "y", "2"))
    other = image_of([ConfigRecord(BROKER, "1", "z", "3")])
    other.reached(50, 4, 17)
    image.become(other)
    assert (image.end_offset, image.epoch, image.timestamp_ms) == (50, 4, 17)
    assert [key.name for key, _ in image.entries()] == ["z"]
    assert not image.frozen
    assert len(list(frozen.snapshot_records())) == 1
