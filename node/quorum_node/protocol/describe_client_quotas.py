"""DescribeClientQuotas: the quotas of matching entities (KIP-546; as shipped in 4.3, versions 0-1)."""

from quorum_node.protocol.api import Api
from quorum_node.protocol.client_quotas import QuotaEntityPart
from quorum_node.schema.schema import (
    BOOL,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    STRING,
    Array,
    Message,
    message,
    wire,
)

MATCH_EXACT, MATCH_DEFAULT, MATCH_SPECIFIED = 0, 1, 2


@message()
class QuotaFilterComponent(Message):
    """Entities that have a part of this type: with the name `match`, without a name, or any (see MATCH_*)."""

    entity_type: str = wire(STRING)
    match_type: int = wire(INT8)
    match: str | None = wire(STRING, nullable_since=0)


@message(flexible_since=1)
class DescribeClientQuotasRequest(Message):
    """DescribeClientQuotas request; `strict`: entities have no parts of other types."""

    components: tuple[QuotaFilterComponent, ...] = wire(Array(QuotaFilterComponent))
    strict: bool = wire(BOOL)


@message()
class DescribedQuota(Message):
    """One quota."""

    key: str = wire(STRING)
    value: float = wire(FLOAT64)


@message()
class DescribedQuotaEntity(Message):
    """All quotas of one entity."""

    entity: tuple[QuotaEntityPart, ...] = wire(Array(QuotaEntityPart))
    values: tuple[DescribedQuota, ...] = wire(Array(DescribedQuota))


@message(flexible_since=1)
class DescribeClientQuotasResponse(Message):
    """DescribeClientQuotas response; no `entries` with an error."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    entries: tuple[DescribedQuotaEntity, ...] | None = wire(
        Array(DescribedQuotaEntity), nullable_since=0, default=None
    )


DESCRIBE_CLIENT_QUOTAS = Api(48, DescribeClientQuotasRequest, DescribeClientQuotasResponse, 0, 1)
