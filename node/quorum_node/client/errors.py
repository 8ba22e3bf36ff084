"""Exceptions of the admin client."""


class QuorumClientError(Exception):
    """Base of all exceptions of this client."""


class NoLeader(QuorumClientError):
    """No leader was found, or none responded, within the timeout. The message says whether a change may have been made."""


class AuthenticationFailed(QuorumClientError):
    """The login failed: user or password is wrong, or it is another server."""


class RequestRefused(QuorumClientError):
    """A final refusal by the leader. `code`: Kafka's error code, by name where it has one."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}" if message else code)
        self.code = code
        self.message = message


class AuthorizationFailed(RequestRefused):
    """The request is not permitted at this listener, or to this caller."""
