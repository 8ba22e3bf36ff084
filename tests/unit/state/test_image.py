"""The config image: last value wins, null deletes, same records give an equal image."""

from quorum_node.records.metadata import ConfigRecord, NoOpRecord, UnknownMetadata
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


def test_names_and_numbers() -> None:
    assert resource_type_number("Topic") == TOPIC
    assert resource_type_name(TOPIC) == "topic"
    assert resource_type_name(77) == "77"
