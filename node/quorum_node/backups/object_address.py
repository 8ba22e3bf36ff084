"""Addresses in an object store: `s3://bucket/prefix`, and the settings of the connection. Pure."""

from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from quorum_node.backups.manifest import BackupError

SCHEME = "s3://"
NO_ENDPOINT = (
    "is not a URL of a host, without credentials and with a port up to 65535 if any:"
    " write for example https://s3.example.com:9000"
)
"""End of a message about an endpoint, which is not shown: it may contain credentials."""


@dataclass(frozen=True, slots=True)
class ObjectAddress:
    """A folder: `prefix` has no slashes at its ends, and is empty for the whole bucket.

    Fields that are None are taken from boto3's environment variables and configuration files, as credentials are.
    """

    bucket: str
    prefix: str
    endpoint: str | None = None
    region: str | None = None
    path_style: bool | None = None

    def __str__(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.prefix}".rstrip("/")

    @property
    def name(self) -> str:
        """The last part of the prefix."""
        return self.prefix.rpartition("/")[2]

    def key(self, name: str) -> str:
        """The key of an object in this folder."""
        return f"{self.prefix}/{name}" if self.prefix else name

    def __truediv__(self, name: str) -> "ObjectAddress":
        return replace(self, prefix=self.key(name).rstrip("/"))


Place = Path | ObjectAddress
"""A folder of backups, or one backup."""


def parse_place(
    text: str,
    endpoint: str | None = None,
    region: str | None = None,
    path_style: bool | None = None,
) -> Place:
    """A directory, or `s3://bucket/prefix`. Raises BackupError."""
    if not text.startswith(SCHEME):
        if not text:  # which Path would take for the working directory
            raise BackupError(f"the address is empty: write a directory, or {SCHEME}BUCKET/PREFIX")
        if "://" in text:
            raise BackupError(
                f"{text!r} is not an address: write a directory, or {SCHEME}BUCKET/PREFIX"
            )
        return Path(text)
    bucket, _, prefix = text.removeprefix(SCHEME).partition("/")
    parts = [each for each in prefix.split("/") if each]
    if not bucket or not {".", ".."}.isdisjoint(parts):
        raise BackupError(f"{text!r} is not an address: write {SCHEME}BUCKET/PREFIX, without '..'")
    if endpoint is not None and not is_endpoint(endpoint):
        raise BackupError(f"the endpoint {NO_ENDPOINT}")
    return ObjectAddress(bucket, "/".join(parts), endpoint, region, path_style)


def is_endpoint(text: str) -> bool:
    """Whether this is a URL of a host, without credentials, which would be shown in messages."""
    if not text.startswith(("http://", "https://")) or "@" in text:
        return False
    try:
        url = urlsplit(text)
        return bool(url.hostname) and url.port != 0
    except ValueError:  # of `port` as well
        return False
