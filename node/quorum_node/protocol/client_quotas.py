"""AlterClientQuotas, as shipped (KIP-546). Brokers answer DescribeClientQuotas from their own image."""

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import (
    BOOL,
    FLOAT64,
    INT16,
    INT32,
    STRING,
    Array,
    Message,
    message,
    wire,
)


@message()
class QuotaEntityPart(Message):
    """One part of an entity; without a name: the default of that type."""

    entity_type: str = wire(STRING)
    entity_name: str | None = wire(STRING, nullable_since=0)


@message()
class QuotaOperation(Message):
    """A quota to set or to remove; the value is then ignored."""

    key: str = wire(STRING)
    value: float = wire(FLOAT64)
    remove: bool = wire(BOOL)


@message()
class AlteredQuotaEntity(Message):
    """Changes of one entity."""

    entity: tuple[QuotaEntityPart, ...] = wire(Array(QuotaEntityPart))
    ops: tuple[QuotaOperation, ...] = wire(Array(QuotaOperation))


@message(flexible_since=1)
class AlterClientQuotasRequest(Message):
    """AlterClientQuotas request."""

    entries: tuple[AlteredQuotaEntity, ...] = wire(Array(AlteredQuotaEntity))
    validate_only: bool = wire(BOOL)


@message()
class AlteredQuotaResult(Message):
    """Result for one entity."""

    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    entity: tuple[QuotaEntityPart, ...] = wire(Array(QuotaEntityPart))


@message(flexible_since=1)
class AlterClientQuotasResponse(Message):
    """AlterClientQuotas response."""

    throttle_time_ms: int = wire(INT32, default=0)
    entries: tuple[AlteredQuotaResult, ...] = wire(Array(AlteredQuotaResult))


ALTER_CLIENT_QUOTAS = Api(
    49, AlterClientQuotasRequest, AlterClientQuotasResponse, 0, 1, is_forwardable=True
)
