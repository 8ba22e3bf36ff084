"""What a call of the admin client can raise. Owns the types; must not know why they are raised."""


class QuorumClientError(Exception):
    """Base of everything that this client raises."""


class NoLeader(QuorumClientError):
    """No leader was found, or none answered, within the timeout. The outcome of a change is open."""


class AuthenticationFailed(QuorumClientError):
    """The login has failed: the user or the password is wrong, or the server is not the right one."""


class RequestRefused(QuorumClientError):
    """The leader refused for good; `code` is Kafka's error code, by name where it has one."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}" if message else code)
        self.code = code
        self.message = message


class AuthorizationFailed(RequestRefused):
    """Voters can't be changed through this listener, or not by this caller."""
