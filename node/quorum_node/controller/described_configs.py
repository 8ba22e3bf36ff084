"""The answer to a whole DescribeConfigs request, on a controller and on a broker. PURE.

Owns the result of each resource: its configs, or why they are not described. Must not know configs (`config_descriptions.py`).
"""

from collections.abc import Mapping
from functools import partial

from quorum_node.controller.authorization import AclOperation, Caller, Rights
from quorum_node.controller.config_descriptions import Asked, describe
from quorum_node.controller.config_rights import config_refused
from quorum_node.controller.described_room import DescribedRoom
from quorum_node.controller.problem import Problem
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.protocol.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from quorum_node.protocol.errors import ErrorCode


def describe_configs(
    image: ClusterImage,
    node_id: int,
    static: Mapping[str, str],
    request: DescribeConfigsRequest,
    caller: Caller,
    rights: Rights,
) -> DescribeConfigsResponse:
    """Describe the resources that the caller may see. `static`: as in `config_descriptions.describe`."""
    room, results = DescribedRoom(), []
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        asked = Asked(
            kind, name, frozenset(resource.configuration_keys or ()), request.include_synonyms
        )
        found = config_refused(
            rights, caller, AclOperation.DESCRIBE_CONFIGS, kind, name
        ) or room.describe(partial(describe, image, node_id, static, asked))
        results.append(
            DescribeConfigsResult(
                error_code=found.code if isinstance(found, Problem) else ErrorCode.NONE,
                error_message=found.text if isinstance(found, Problem) else None,
                resource_type=kind,
                resource_name=name,
                configs=() if isinstance(found, Problem) else found,
            )
        )
    return DescribeConfigsResponse(results=tuple(results))
