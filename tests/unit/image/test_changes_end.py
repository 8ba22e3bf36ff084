"""What made an image does not outlive it."""

import sys
from uuid import UUID

import pytest

from quorum_node.image.changes import ImageChanges
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.records import metadata as md

RECORDS: list[md.AnyMetadata] = [
    md.ConfigRecord(resource_type=4, resource_name="1", name="n", value="v"),
    md.FeatureLevelRecord(name="kraft.version", feature_level=1),
    md.TopicRecord(name="t", topic_id=UUID(int=7)),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_change_objects_are_released_after_their_application(record: md.AnyMetadata) -> None:
    """They reference the previous image, which would stay in memory until a garbage collection."""
    changes = ImageChanges(ClusterImage())
    changes.replay(record)
    assert changes.finish() != ClusterImage()
    assert sys.getrefcount(changes) == 2, "this name and the argument"
