"""The config image: last value wins, null deletes, same records give an equal image."""

from uuid import UUID

from quorum_node.records.metadata import (
    ABORT_TRANSACTION,
    BEGIN_TRANSACTION,
    END_TRANSACTION,
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnknownMetadata,
)
from quorum_node.state.image import ConfigImage, ConfigKey
from quorum_node.state.resource_types import TOPIC, resource_type_name, resource_type_number


def test_replay() -> None:
    image = ConfigImage()
    for record in (
        ConfigRecord(TOPIC, "a", "x", "1"),
        NoOpRecord(),
        ConfigRecord(TOPIC, "a", "y", "2"),
        UnknownMetadata(99, 0, b"?"),
        ConfigRecord(TOPIC, "a", "x", "3"),
        ConfigRecord(TOPIC, "b", "x", ""),
        ConfigRecord(TOPIC, "a", "y", None),
        ConfigRecord(TOPIC, "never", "y", None),
    ):
        image.replay(record)
    assert list(image.entries()) == [
        (ConfigKey(TOPIC, "a", "x"), "3"),
        (ConfigKey(TOPIC, "b", "x"), ""),
    ]
    assert image.get(ConfigKey(TOPIC, "a", "y")) is None
    assert image.resource(TOPIC, "a") == {"x": "3"}


def put(name: str, value: str | None = "1") -> ConfigRecord:
    return ConfigRecord(TOPIC, "a", name, value)


def boundary(kind: int) -> UnknownMetadata:
    return UnknownMetadata(kind, 0, b"\0")


def names(image: ConfigImage) -> list[str]:
    return [key.name for key, _ in image.entries()]


def test_a_transaction_takes_effect_at_its_end() -> None:
    image = ConfigImage()
    for record in (put("before"), boundary(BEGIN_TRANSACTION), put("x"), put("before", None)):
        image.replay(record)
    assert names(image) == ["before"]
    image.replay(boundary(END_TRANSACTION))
    assert names(image) == ["x"]
    image.replay(put("after"))
    assert names(image) == ["after", "x"]


def test_an_aborted_transaction_never_happened() -> None:
    image = ConfigImage()
    for record in (put("before"), boundary(BEGIN_TRANSACTION), put("x"), put("before", None)):
        image.replay(record)
    image.replay(boundary(ABORT_TRANSACTION))
    image.replay(put("after"))
    assert names(image) == ["after", "before"]
    for record in (boundary(BEGIN_TRANSACTION), put("y"), boundary(END_TRANSACTION)):
        image.replay(record)
    assert names(image) == ["after", "before", "y"]


def test_a_topics_configs_end_with_it() -> None:
    image = ConfigImage()
    for record in (
        TopicRecord("a", UUID(int=1)),
        put("x"),
        ConfigRecord(TOPIC, "b", "y", "2"),
        RemoveTopicRecord(UUID(int=1)),
        RemoveTopicRecord(UUID(int=9)),
    ):
        image.replay(record)
    assert names(image) == ["y"]
    image.replay(put("again"))
    assert names(image) == ["again", "y"]


def test_an_image_knows_what_it_left_out() -> None:
    image = ConfigImage()
    for record in (put("x"), NoOpRecord(), put("x", None)):
        image.replay(record)
    assert image.left_out == frozenset()
    image.replay(boundary(BEGIN_TRANSACTION))
    image.replay(boundary(END_TRANSACTION))
    assert image.left_out == frozenset(), "the boundaries themselves say nothing"
    image.replay(FeatureLevelRecord("metadata.version", 29))
    image.replay(UnknownMetadata(27, 0, b"?"))
    image.replay(UnknownMetadata(99, 0, b"?"))
    assert image.left_out == {"RegisterControllerRecord", "type 99"}
    assert not image.is_whole


def test_names_and_numbers() -> None:
    assert resource_type_number("Topic") == TOPIC
    assert resource_type_name(TOPIC) == "topic"
    assert resource_type_name(77) == "77"
