"""CreateAcls, DeleteAcls and DescribeAcls, as shipped (KIP-140, KIP-290).

The numbers of resource types, pattern types, operations and permissions are in `security/acl_terms.py`.
"""

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import (
    INT8,
    INT16,
    INT32,
    STRING,
    Array,
    Message,
    message,
    wire,
)

LITERAL = 3


@message()
class AclCreation(Message):
    """An access control entry to add."""

    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    resource_pattern_type: int = wire(INT8, since=1, default=LITERAL)
    principal: str = wire(STRING)
    host: str = wire(STRING)
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


@message(flexible_since=2)
class CreateAclsRequest(Message):
    """CreateAcls request."""

    creations: tuple[AclCreation, ...] = wire(Array(AclCreation))


@message()
class AclCreationResult(Message):
    """Result for one rule."""

    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)


@message(flexible_since=2)
class CreateAclsResponse(Message):
    """CreateAcls response."""

    throttle_time_ms: int = wire(INT32, default=0)
    results: tuple[AclCreationResult, ...] = wire(Array(AclCreationResult))


@message()
class DeleteAclsFilter(Message):
    """Entries to delete; null and ANY match everything."""

    resource_type_filter: int = wire(INT8)
    resource_name_filter: str | None = wire(STRING, nullable_since=0)
    pattern_type_filter: int = wire(INT8, since=1, default=LITERAL)
    principal_filter: str | None = wire(STRING, nullable_since=0)
    host_filter: str | None = wire(STRING, nullable_since=0)
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


@message(flexible_since=2)
class DeleteAclsRequest(Message):
    """DeleteAcls request."""

    filters: tuple[DeleteAclsFilter, ...] = wire(Array(DeleteAclsFilter))


@message()
class DeleteAclsMatchingAcl(Message):
    """An entry that a filter matched."""

    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    pattern_type: int = wire(INT8, since=1, default=LITERAL)
    principal: str = wire(STRING)
    host: str = wire(STRING)
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


@message()
class DeleteAclsFilterResult(Message):
    """Entries that one filter deleted."""

    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    matching_acls: tuple[DeleteAclsMatchingAcl, ...] = wire(
        Array(DeleteAclsMatchingAcl), default=()
    )


@message(flexible_since=2)
class DeleteAclsResponse(Message):
    """DeleteAcls response."""

    throttle_time_ms: int = wire(INT32, default=0)
    filter_results: tuple[DeleteAclsFilterResult, ...] = wire(Array(DeleteAclsFilterResult))


@message(flexible_since=2)
class DescribeAclsRequest(Message):
    """DescribeAcls request: one filter."""

    resource_type_filter: int = wire(INT8)
    resource_name_filter: str | None = wire(STRING, nullable_since=0)
    pattern_type_filter: int = wire(INT8, since=1, default=LITERAL)
    principal_filter: str | None = wire(STRING, nullable_since=0)
    host_filter: str | None = wire(STRING, nullable_since=0)
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


@message()
class AclDescription(Message):
    """An entry of one resource."""

    principal: str = wire(STRING)
    host: str = wire(STRING)
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


@message()
class DescribeAclsResource(Message):
    """The entries of one resource."""

    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    pattern_type: int = wire(INT8, since=1, default=LITERAL)
    acls: tuple[AclDescription, ...] = wire(Array(AclDescription))


@message(flexible_since=2)
class DescribeAclsResponse(Message):
    """DescribeAcls response."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    resources: tuple[DescribeAclsResource, ...] = wire(Array(DescribeAclsResource), default=())


DESCRIBE_ACLS = Api(29, DescribeAclsRequest, DescribeAclsResponse, 1, 3)
CREATE_ACLS = Api(30, CreateAclsRequest, CreateAclsResponse, 1, 3, is_forwardable=True)
DELETE_ACLS = Api(31, DeleteAclsRequest, DeleteAclsResponse, 1, 3, is_forwardable=True)
