"""The image: last value wins, null deletes, transactions hold back, what is left out is known."""

from uuid import UUID

import pytest

from quorum_node.image import ordering
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.committed import CommittedImage
from quorum_node.image.configs import ConfigKey
from quorum_node.image.resource_types import TOPIC, resource_type_name, resource_type_number
from quorum_node.records.metadata import (
    AbortTransactionRecord,
    AnyMetadata,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    NoOpRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnknownMetadata,
)
from support.metadata_records import config, level

BEGIN, END, ABORT = BeginTransactionRecord(), EndTransactionRecord(), AbortTransactionRecord()


def test_config_records_are_applied() -> None:
    image = ClusterImage().replay_all(
        (
            config(TOPIC, "a", "x", "1"),
            NoOpRecord(),
            config(TOPIC, "a", "y", "2"),
            config(TOPIC, "a", "x", "3"),
            config(TOPIC, "b", "x", ""),
            config(TOPIC, "a", "y", None),
            config(TOPIC, "never", "y", None),
            config(TOPIC, "c", "y", "1"),
            config(TOPIC, "c", "y", None),
        )
    )
    assert list(image.configs.entries()) == [
        (ConfigKey(TOPIC, "a", "x"), "3"),
        (ConfigKey(TOPIC, "b", "x"), ""),
    ]
    assert image.configs.get(ConfigKey(TOPIC, "a", "y")) is None
    assert dict(image.configs.of(TOPIC, "a")) == {"x": "3"}
    assert (TOPIC, "c") not in image.configs.by_resource


def test_sorting_many_config_values_is_interrupted_by_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ordering, "_SORTED_AT_ONCE", 7)
    keys = [f"k{number:02}" for number in range(50)]
    image = ClusterImage().replay_all([config(TOPIC, "a", key, key) for key in reversed(keys)])
    found = list(image.configs.entries_with_pauses())
    assert found.count(None) == 7
    entries = [(ConfigKey(TOPIC, "a", key), key) for key in keys]
    assert [each for each in found if each is not None] == entries
    assert list(image.configs.entries()) == entries


def put(name: str, value: str | None = "1") -> ConfigRecord:
    return config(TOPIC, "a", name, value)


def committed(*records: AnyMetadata) -> CommittedImage:
    made = CommittedImage()
    made.replay(records)
    return made


def names(committed: CommittedImage) -> list[str]:
    return [key.name for key, _ in committed.image.configs.entries()]


def test_transaction_takes_effect_at_its_end() -> None:
    made = committed(put("before"), BEGIN, put("x"), put("before", None))
    assert names(made) == ["before"]
    assert made.in_transaction
    assert not made.is_whole
    made.replay((END,))
    assert names(made) == ["x"]
    assert made.is_whole
    made.replay((put("after"),))
    assert names(made) == ["after", "x"]


def test_aborted_transaction_has_no_effect() -> None:
    made = committed(put("before"), BEGIN, put("x"), put("before", None), ABORT)
    made.replay((put("after"),))
    assert names(made) == ["after", "before"]
    made.replay((BEGIN, put("y"), END))
    assert names(made) == ["after", "before", "y"]


def test_configs_of_a_topic_are_removed_with_it() -> None:
    made = committed(
        TopicRecord(name="a", topic_id=UUID(int=1)),
        put("x"),
        config(TOPIC, "b", "y", "2"),
        RemoveTopicRecord(topic_id=UUID(int=1)),
        RemoveTopicRecord(topic_id=UUID(int=9)),
    )
    assert names(made) == ["y"]
    made.replay((put("again"),))
    assert names(made) == ["again", "y"]


@pytest.mark.requirement("K631-04")
def test_image_lists_the_records_it_omitted() -> None:
    made = committed(put("x"), NoOpRecord(), put("x", None), BEGIN, END, level("a", 2))
    assert made.image.left_out == frozenset()
    assert made.is_whole
    register = RegisterControllerRecord(
        controller_id=1, incarnation_id=UUID(int=1), end_points=(), features=(),
        tagged_fields=((77, b"kept"),),
    )  # fmt: skip
    made.replay((register,))
    assert made.is_whole, "kept in the registration"
    made.replay((UnknownMetadata(27, 9, b"?"), UnknownMetadata(99, 0, b"?")))
    newer = ConfigRecord(
        resource_type=TOPIC, resource_name="a", name="k", value="v", tagged_fields=((9, b""),)
    )
    made.replay((newer,))
    assert made.image.left_out == {
        "RegisterControllerRecord v9",
        "type 99 v0",
        "ConfigRecord with fields of a newer version",
    }
    assert not made.is_whole


def test_image_is_replaced_atomically() -> None:
    made = committed(put("x"))
    kept = made.image
    other = committed(put("z"))
    other.reached(50, 4, 17)
    made.become(other)
    assert (made.end_offset, made.epoch, made.timestamp_ms) == (50, 4, 17)
    assert names(made) == ["z"]
    assert [key.name for key, _ in kept.configs.entries()] == ["x"]


def test_names_and_numbers() -> None:
    assert resource_type_number("Topic") == TOPIC
    assert resource_type_name(TOPIC) == "topic"
    assert resource_type_name(77) == "77"


def test_topics_with_colliding_metric_names_are_found() -> None:
    """A log of an older version may have several of them: each is kept."""
    a, b = UUID(int=101), UUID(int=102)
    both = ClusterImage().replay_all(
        (TopicRecord(name="x_y", topic_id=b), TopicRecord(name="x.y", topic_id=a))
    )
    assert both.topics.colliding("x.y") == "x.y"
    assert both.topics.colliding("xy") is None
    one = both.replay(RemoveTopicRecord(topic_id=a))
    assert one.topics.colliding("x.y") == "x_y"
    assert ClusterImage().replay_all(one.snapshot_messages()) == one
    assert one.replay(RemoveTopicRecord(topic_id=b)) == ClusterImage()
