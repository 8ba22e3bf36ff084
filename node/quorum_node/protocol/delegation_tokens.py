"""Creating, renewing, expiring and describing delegation tokens, as shipped (KIP-48, KIP-373)."""

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import (
    BYTES,
    INT16,
    INT32,
    INT64,
    STRING,
    Array,
    Message,
    message,
    wire,
)


@message()
class TokenPrincipal(Message):
    """A renewer of a token, or an owner of tokens."""

    principal_type: str = wire(STRING)
    principal_name: str = wire(STRING)


@message(flexible_since=2)
class CreateDelegationTokenRequest(Message):
    """Create a token for the owner; without an owner, for the caller."""

    owner_principal_type: str | None = wire(STRING, since=3, nullable_since=3, default=None)
    owner_principal_name: str | None = wire(STRING, since=3, nullable_since=3, default=None)
    renewers: tuple[TokenPrincipal, ...] = wire(Array(TokenPrincipal), default=())
    max_lifetime_ms: int = wire(INT64, default=-1)


@message(flexible_since=2)
class CreateDelegationTokenResponse(Message):
    """The token; all times are -1 if none was created."""

    error_code: int = wire(INT16)
    principal_type: str = wire(STRING)
    principal_name: str = wire(STRING)
    token_requester_principal_type: str = wire(STRING, since=3, default="", ignorable=True)
    token_requester_principal_name: str = wire(STRING, since=3, default="", ignorable=True)
    issue_timestamp_ms: int = wire(INT64, default=-1)
    expiry_timestamp_ms: int = wire(INT64, default=-1)
    max_timestamp_ms: int = wire(INT64, default=-1)
    token_id: str = wire(STRING, default="")
    hmac: bytes = wire(BYTES, default=b"", secret=True)
    throttle_time_ms: int = wire(INT32, default=0)


@message(flexible_since=2)
class RenewDelegationTokenRequest(Message):
    """Extend the lifetime of a token."""

    hmac: bytes = wire(BYTES, secret=True)
    renew_period_ms: int = wire(INT64)


@message(flexible_since=2)
class RenewDelegationTokenResponse(Message):
    """The new expiry time."""

    error_code: int = wire(INT16)
    expiry_timestamp_ms: int = wire(INT64, default=-1)
    throttle_time_ms: int = wire(INT32, default=0)


@message(flexible_since=2)
class ExpireDelegationTokenRequest(Message):
    """Expire a token."""

    hmac: bytes = wire(BYTES, secret=True)
    expiry_time_period_ms: int = wire(INT64)


@message(flexible_since=2)
class ExpireDelegationTokenResponse(Message):
    """The new expiry time."""

    error_code: int = wire(INT16)
    expiry_timestamp_ms: int = wire(INT64, default=-1)
    throttle_time_ms: int = wire(INT32, default=0)


@message(flexible_since=2)
class DescribeDelegationTokenRequest(Message):
    """Describe the tokens of some owners, or of all with null."""

    owners: tuple[TokenPrincipal, ...] | None = wire(Array(TokenPrincipal), nullable_since=0)


@message()
class DescribedDelegationToken(Message):
    """A token, with its secret."""

    principal_type: str = wire(STRING)
    principal_name: str = wire(STRING)
    token_requester_principal_type: str = wire(STRING, since=3, default="")
    token_requester_principal_name: str = wire(STRING, since=3, default="")
    issue_timestamp_ms: int = wire(INT64)
    expiry_timestamp_ms: int = wire(INT64)
    max_timestamp_ms: int = wire(INT64)
    token_id: str = wire(STRING)
    hmac: bytes = wire(BYTES, secret=True)
    renewers: tuple[TokenPrincipal, ...] = wire(Array(TokenPrincipal), default=())


@message(flexible_since=2)
class DescribeDelegationTokenResponse(Message):
    """The tokens."""

    error_code: int = wire(INT16)
    tokens: tuple[DescribedDelegationToken, ...] = wire(Array(DescribedDelegationToken), default=())
    throttle_time_ms: int = wire(INT32, default=0)


CREATE_DELEGATION_TOKEN = Api(
    38, CreateDelegationTokenRequest, CreateDelegationTokenResponse, 1, 3, is_forwardable=True
)
RENEW_DELEGATION_TOKEN = Api(
    39, RenewDelegationTokenRequest, RenewDelegationTokenResponse, 1, 2, is_forwardable=True
)
EXPIRE_DELEGATION_TOKEN = Api(
    40, ExpireDelegationTokenRequest, ExpireDelegationTokenResponse, 1, 2, is_forwardable=True
)
DESCRIBE_DELEGATION_TOKEN = Api(
    41, DescribeDelegationTokenRequest, DescribeDelegationTokenResponse, 1, 3
)
