"""ApiVersions of a broker: features that older clients can read, and clients that name their software."""

import pytest

from quorum_node.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from quorum_node.protocol.errors import ErrorCode
from quorum_node.server.broker.metadata_api import MetadataApi
from support.controlled_cluster import ControlledCluster
from support.hosted_replicas import ME


def announced(version: int, name: str = "a", software: str = "1.0") -> ApiVersionsResponse:
    cluster = ControlledCluster((ME,))
    api = MetadataApi(ME, lambda: cluster.image, lambda: "c", lambda: 1)
    body = ApiVersionsRequest(client_software_name=name, client_software_version=software)
    return api.api_versions(body, version)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_features_whose_levels_begin_at_0_are_for_clients_that_can_read_them(version: int) -> None:
    """Older Java clients use version 3, and can't read such a feature (KAFKA-17492). A stock broker leaves them out."""
    answer = announced(version)
    assert answer.error_code == ErrorCode.NONE
    names = {each.name for each in answer.supported_features}
    assert "metadata.version" in names
    assert ("transaction.version" in names) == (version >= 4)
    assert all(each.min_version > 0 for each in answer.supported_features) == (version < 4)


@pytest.mark.parametrize(
    ("name", "software", "is_valid"),
    [
        ("apache-kafka-java", "4.3.1", True),
        ("a", "1", True),
        ("", "1", False),
        ("a", "", False),
        ("a b", "1", False),
        ("-a", "1", False),
        ("a", "1.", False),
        ("\u00e4", "1", False),
        ("a\n", "1", False),
    ],
)
def test_software_of_a_client_is_checked_since_version_3(
    name: str, software: str, is_valid: bool
) -> None:
    for version in (0, 2, 3, 4):
        answer = announced(version, name, software)
        refused = version >= 3 and not is_valid
        assert answer.error_code == (ErrorCode.INVALID_REQUEST if refused else ErrorCode.NONE)
        assert bool(answer.api_keys) != refused
