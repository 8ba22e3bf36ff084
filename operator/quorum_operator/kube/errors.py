"""Errors of calls to the Kubernetes API, by their meaning for the caller."""


class ApiError(Exception):
    """The API server rejected the call or could not be reached. `status` is 0 without an answer."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


class NotFound(ApiError):
    """The object does not exist."""


class Gone(ApiError):
    """The version of a collection has expired: it has to be listed again."""


class AlreadyExists(ApiError):
    """The object exists already."""


class Conflict(ApiError):
    """The object is not the observed one: its UID or resourceVersion differs."""


class Invalid(ApiError):
    """The API server rejects the object; a retry does not help."""


class Forbidden(ApiError):
    """The operator's role lacks a permission, or an admission policy rejects the call."""


class Unavailable(ApiError):
    """No answer, or the API server is overloaded: try again later."""


_NO_DETAILS = "the server rejected our request due to an error in our request"


def classify(status: int, reason: str, message: str) -> ApiError:
    """The error for an HTTP status and a Kubernetes reason."""
    kind: type[ApiError] = ApiError
    if status == 404:
        kind = NotFound
    elif status == 410:
        kind = Gone
    elif status == 409:
        kind = AlreadyExists if reason == "AlreadyExists" else Conflict
    elif status in {400, 422}:
        # A JSON patch whose `test` fails is answered with 422: the object has changed. Current API
        # servers send no details in this case, while they always name an invalid object. A merge
        # patch with the UID of a deleted object is answered with 422 as well if another object has
        # its name now.
        tested = ("test" in message and "patch" in message) or message.startswith(_NO_DETAILS)
        replaced = "metadata.uid" in message and "immutable" in message
        kind = Conflict if tested or replaced else Invalid
    elif status in {401, 403}:
        kind = Forbidden
    elif status == 0 or status == 429 or status >= 500:
        kind = Unavailable
    return kind(status, reason, message)
