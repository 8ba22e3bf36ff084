"""AlterUserScramCredentials and DescribeUserScramCredentials, as shipped (KIP-554, KIP-900)."""

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import (
    BYTES,
    INT8,
    INT16,
    INT32,
    STRING,
    Array,
    Message,
    message,
    wire,
)


@message()
class ScramCredentialDeletion(Message):
    """A credential to delete."""

    name: str = wire(STRING)
    mechanism: int = wire(INT8)


@message()
class ScramCredentialUpsertion(Message):
    """A credential to add or to replace."""

    name: str = wire(STRING)
    mechanism: int = wire(INT8)
    iterations: int = wire(INT32)
    salt: bytes = wire(BYTES, secret=True)
    salted_password: bytes = wire(BYTES, secret=True)


@message(flexible_since=0)
class AlterUserScramCredentialsRequest(Message):
    """AlterUserScramCredentials request."""

    deletions: tuple[ScramCredentialDeletion, ...] = wire(Array(ScramCredentialDeletion))
    upsertions: tuple[ScramCredentialUpsertion, ...] = wire(Array(ScramCredentialUpsertion))


@message()
class AlterUserScramCredentialsResult(Message):
    """Result for one user."""

    user: str = wire(STRING)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)


@message(flexible_since=0)
class AlterUserScramCredentialsResponse(Message):
    """AlterUserScramCredentials response."""

    throttle_time_ms: int = wire(INT32, default=0)
    results: tuple[AlterUserScramCredentialsResult, ...] = wire(
        Array(AlterUserScramCredentialsResult)
    )


@message()
class UserName(Message):
    """A user to describe."""

    name: str = wire(STRING)


@message(flexible_since=0)
class DescribeUserScramCredentialsRequest(Message):
    """DescribeUserScramCredentials request; null or an empty array means all users."""

    users: tuple[UserName, ...] | None = wire(Array(UserName), nullable_since=0)


@message()
class CredentialInfo(Message):
    """A credential, without secrets."""

    mechanism: int = wire(INT8)
    iterations: int = wire(INT32)


@message()
class DescribeUserScramCredentialsResult(Message):
    """The credentials of one user."""

    user: str = wire(STRING)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    credential_infos: tuple[CredentialInfo, ...] = wire(Array(CredentialInfo), default=())


@message(flexible_since=0)
class DescribeUserScramCredentialsResponse(Message):
    """DescribeUserScramCredentials response."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    results: tuple[DescribeUserScramCredentialsResult, ...] = wire(
        Array(DescribeUserScramCredentialsResult), default=()
    )


DESCRIBE_USER_SCRAM_CREDENTIALS = Api(
    50, DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse, 0, 0
)
ALTER_USER_SCRAM_CREDENTIALS = Api(
    51,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    0,
    0,
    is_forwardable=True,
)
