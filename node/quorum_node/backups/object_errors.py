"""Errors of an object store in one line: the request, the response, and what to do.

Of a response only S3's code and message are shown, as the endpoint may not be an object store and return any text.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import botocore.exceptions as errors
from botocore.parsers import ResponseParserError

from quorum_node.backups.manifest import BackupError

_MOST_WORDS = 200
_ADVICE = {
    "AccessDenied": "grant the credentials list, read, write and delete on this bucket and prefix",
    "403": "grant the credentials list, read, write and delete on this bucket and prefix",
    "AuthorizationHeaderMalformed": "correct the region",
    "ExpiredToken": "renew the credentials",
    "InvalidAccessKeyId": "correct the credentials",
    "InvalidToken": "correct the credentials",
    "NoSuchBucket": "create the bucket, or correct its name or the endpoint",
    "RequestTimeTooSkewed": "correct the clock of this host",
    "SlowDown": "the store is busy: try again later",
    "XMinioStorageFull": "give the store more space",
    "PermanentRedirect": "correct the region or the endpoint",
    "SignatureDoesNotMatch": "correct the credentials",
}
_UNREACHABLE = (
    errors.ConnectionError,
    errors.HTTPClientError,
)


class ObjectStoreError(BackupError):
    """The store refused a request or failed. `code`: S3's code, or the HTTP status, or "" without a response."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code

    @property
    def is_missing(self) -> bool:
        """Whether the object or upload does not exist."""
        return self.code in ("NoSuchKey", "NoSuchUpload", "404")

    @property
    def exists_already(self) -> bool:
        """Whether a conditional write failed because the object exists, or because of a concurrent write."""
        return self.code in ("PreconditionFailed", "ConditionalRequestConflict", "409", "412")


@contextmanager
def store_errors(what: str, endpoint: str) -> Iterator[None]:
    """Raise ObjectStoreError for an error of a request, such as `what` = "write s3://bucket/key"."""
    try:
        yield
    except errors.ClientError as error:
        raise _answered(what, error) from None
    except (errors.NoCredentialsError, errors.PartialCredentialsError):
        raise ObjectStoreError(
            f"can't {what}: there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or whatever else"
            " boto3 reads"
        ) from None
    except errors.SSLError as error:
        raise ObjectStoreError(
            f"can't {what}: TLS to {endpoint} failed ({_words(error)}): AWS_CA_BUNDLE names a file with the store's CA"
        ) from None
    except _UNREACHABLE as error:
        raise ObjectStoreError(
            f"can't {what}: {endpoint} does not answer ({_words(error)}): check the endpoint and the network"
        ) from None
    except (ResponseParserError, KeyError) as error:
        raise ObjectStoreError(
            f"can't {what}: {endpoint} does not answer as an S3 API does ({type(error).__name__}): correct the endpoint"
        ) from None
    except (errors.BotoCoreError, ValueError) as error:
        raise ObjectStoreError(f"can't {what}: {_words(error)}") from None


def _answered(what: str, error: errors.ClientError) -> ObjectStoreError:
    answer = error.response.get("Error", {})
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", "")
    code = str(answer.get("Code") or status)
    message = " ".join(str(answer.get("Message") or "").split())[:_MOST_WORDS]
    advice = _ADVICE.get(code, "")
    parts = [f"can't {what}: the store answered {status} {code}"]
    parts += [message.rstrip(".")] if message else []
    parts += [advice] if advice else []
    return ObjectStoreError(": ".join(parts), code)


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:_MOST_WORDS]
