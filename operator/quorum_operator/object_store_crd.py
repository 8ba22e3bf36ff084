"""`objectStore` in `spec.backup` and `spec.restoreFrom`: a bucket of an object store with an S3 API."""

from urllib.parse import urlsplit

from pydantic import ConfigDict, Field

from quorum_operator.crd_model import CrdModel, cel_rules

ACCESS_KEY, SECRET_KEY = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"
"""Keys of the Secret with the credentials, and the environment variables that they become."""
SESSION_TOKEN = "AWS_SESSION_TOKEN"
"""The same; not required."""
CA_KEY = "ca.crt"
"""Key of the Secret with the CA certificates."""
_NAME = "^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$"
_HTTP, _HTTPS = 80, 443
_PORT = (
    "(6553[0-5]|655[0-2][0-9]|65[0-4][0-9][0-9]|6[0-4][0-9][0-9][0-9]|[1-5][0-9][0-9][0-9][0-9]"
    "|[1-9][0-9]?[0-9]?[0-9]?)"
)
ENDPOINT = (
    f"^https?://([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?|[[][0-9A-Fa-f:.]+[]])(:{_PORT})?/?$"
)
"""A host or an IPv6 address in brackets, with a port if any. Without backslashes and braces, for CEL."""


class ObjectStoreSpec(CrdModel):
    """A bucket of an object store with an S3 API, and how it is reached."""

    model_config = ConfigDict(
        json_schema_extra=cel_rules(
            (
                "!self.prefix.startsWith('/') && !self.prefix.split('/').exists(each, each == '..')",
                "objectStore.prefix is relative to the bucket, without '..': such as backups/production",
            ),
            (
                f"!has(self.endpoint) || self.endpoint.matches('{ENDPOINT}')",
                (
                    "objectStore.endpoint must be a URL of a host without a path and without credentials, with a port "
                    "up to 65535 if any, such as https://s3.example.com:9000. Leave it out for Amazon S3"
                ),
            ),
            (
                "!has(self.caSecretName) || (has(self.endpoint) && self.endpoint.startsWith('https://'))",
                "objectStore.caSecretName is only for an endpoint with https: set objectStore.endpoint, or leave it out",
            ),
        )
    )

    bucket: str = Field(
        min_length=3,
        max_length=63,
        pattern="^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$",
        description="Name of the bucket. It is not created.",
    )
    prefix: str = Field(default="", max_length=512, description="Folder in the bucket.")
    endpoint: str | None = Field(
        default=None,
        min_length=1,
        max_length=253,
        description="URL of the store, such as https://s3.example.com:9000; Amazon S3 by default.",
    )
    region: str | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        pattern="^[A-Za-z0-9-]+$",
        description="Region of the bucket.",
    )
    path_style: bool | None = Field(
        default=None,
        description=(
            "Whether the bucket is in the path of the URL (true) or in the host's name (false). Default: in the path "
            "if there is an endpoint."
        ),
    )
    credentials_secret_name: str = Field(
        min_length=1,
        max_length=253,
        pattern=_NAME,
        description=(
            "Secret in this namespace with the keys AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, if needed, "
            "AWS_SESSION_TOKEN."
        ),
    )
    ca_secret_name: str | None = Field(
        default=None,
        min_length=1,
        max_length=253,
        pattern=_NAME,
        description="Secret in this namespace whose key ca.crt has the CA certificates of the endpoint.",
    )

    def address(self, folder: str = "") -> str:
        """`s3://bucket/prefix/folder`."""
        parts = [self.bucket, *(each for each in self.prefix.split("/") if each)]
        return "s3://" + "/".join([*parts, folder] if folder else parts)

    @property
    def port(self) -> int:
        """TCP port of the store."""
        if self.endpoint is None:
            return _HTTPS
        url = urlsplit(self.endpoint)
        return _given_port(url.netloc) or (_HTTP if url.scheme == "http" else _HTTPS)


def _given_port(host: str) -> int | None:
    number = host.rpartition(":")[2]
    # Stored objects may be older than the rule for the port.
    return int(number) if number.isdecimal() and 0 < int(number) < 65_536 else None
