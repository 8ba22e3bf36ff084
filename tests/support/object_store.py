"""An object store with an S3 API: moto's server, as a process of its own, by default on the loopback interface.

It has multipart uploads with S3's smallest part, pages of listings, conditional writes and S3's errors. It checks signatures: only the
user that is created here may do anything. What it stores is gone when it ends. `ObjectStore.environment` is what boto3 and other
clients read; Hadoop's s3a takes the same values as properties (`s3a_properties`).
"""

import os
import secrets
import subprocess
import sys
from collections.abc import Iterable
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Self

from support.local_quorum import wait_until
from support.ports import free_ports

REGION = "us-east-1"
_EVERYTHING = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}'
_START_S = 60.0
_STOP_S = 10.0


class ObjectStore:
    """Started on entering, ended on leaving."""

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        certificate: tuple[Path, Path] | None = None,
        authority: Path | None = None,
        page_keys: int = 1_000,
    ) -> None:
        """`host`: the address that the store listens on. `certificate`: files of a certificate for `host` and its key,
        issued by `authority`; the store then accepts only https. `page_keys`: keys in a page of a listing, 1,000 on S3.
        """
        (self.port,) = free_ports(1)
        scheme = "https" if certificate is not None else "http"
        self._host = host
        self.endpoint = f"{scheme}://{host}:{self.port}"
        self.access_key, self.secret_key = "", ""
        self._certificate, self._authority = certificate, authority
        self._page_keys = page_keys
        self._output = TemporaryFile()  # noqa: SIM115 - closed on leaving
        self._process: subprocess.Popen[bytes] | None = None
        self._kept_client: Any = None

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "moto.server", "--host", self._host]
        command += ["--port", str(self.port)]
        if self._certificate is not None:
            command += ["--ssl-cert", str(self._certificate[0])]
            command += ["--ssl-key", str(self._certificate[1])]
        self._process = subprocess.Popen(
            command, stdout=self._output, stderr=subprocess.STDOUT, env=self._environment()
        )
        try:
            wait_until(self._answers, "the object store answers", _START_S)
            self._create_user()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(_STOP_S)
        self._output.close()
        if self._kept_client is not None:
            self._kept_client.close()

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of a client."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_DEFAULT_REGION": REGION,
            **({"AWS_CA_BUNDLE": str(self._authority)} if self._authority is not None else {}),
        }

    @property
    def s3a_properties(self) -> dict[str, str]:
        """The same for Hadoop's file system s3a."""
        return {
            "fs.s3a.endpoint": self.endpoint,
            "fs.s3a.endpoint.region": REGION,
            "fs.s3a.path.style.access": "true",
            "fs.s3a.connection.ssl.enabled": str(self._certificate is not None).lower(),
            "fs.s3a.access.key": self.access_key,
            "fs.s3a.secret.key": self.secret_key,
        }

    @property
    def s3(self) -> Any:
        """A boto3 client of the user. There is one, because making one takes a second."""
        if self._kept_client is None:
            self._kept_client = self.client()
        return self._kept_client

    def client(self, service: str = "s3", **options: Any) -> Any:
        """Another boto3 client, by default of the user; the caller closes it."""
        import boto3

        settings: dict[str, Any] = {
            "endpoint_url": self.endpoint,
            "region_name": REGION,
            "aws_access_key_id": self.access_key,
            "aws_secret_access_key": self.secret_key,
            "verify": None if self._authority is None else str(self._authority),
        }
        return boto3.session.Session().client(service, **(settings | options))

    def create_bucket(self, name: str) -> str:
        """Returns its name."""
        self.s3.create_bucket(Bucket=name)
        return name

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        """The keys of all objects, sorted."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return sorted(each["Key"] for page in pages for each in page.get("Contents", ()))

    def read(self, bucket: str, key: str) -> bytes:
        """The content of an object."""
        content: bytes = self.s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        return content

    def write(self, bucket: str, key: str, content: bytes) -> None:
        """Write, or overwrite, an object."""
        self.s3.put_object(Bucket=bucket, Key=key, Body=content)

    def delete(self, bucket: str, keys: Iterable[str]) -> None:
        """Delete objects."""
        for key in keys:
            self.s3.delete_object(Bucket=bucket, Key=key)

    def unfinished_uploads(self, bucket: str) -> list[str]:
        """The keys of multipart uploads that are neither complete nor aborted."""
        found = self.s3.list_multipart_uploads(Bucket=bucket)
        return sorted(each["Key"] for each in found.get("Uploads", ()))

    def output(self) -> str:
        """What the server has written: its requests and its errors."""
        self._output.seek(0)
        return self._output.read().decode(errors="replace")

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError(f"the object store ended: {self.output()}")
        with closing(self._connection()) as connection:
            try:
                connection.request("GET", "/moto-api/data.json")
                return connection.getresponse().status == 200
            except (OSError, HTTPException):
                return False

    def _connection(self) -> HTTPConnection:
        if self._certificate is None:
            return HTTPConnection(self._host, self.port, timeout=_START_S)
        import ssl
        from http.client import HTTPSConnection

        trust = ssl._create_unverified_context()  # the tests' own server
        return HTTPSConnection(self._host, self.port, timeout=_START_S, context=trust)

    def _create_user(self) -> None:
        """Create the only user, then have every request checked."""
        root = secrets.token_hex(8)
        given = {"aws_access_key_id": root, "aws_secret_access_key": root}
        with closing(self.client("iam", **given)) as client:
            client.create_user(UserName="tests")
            key = client.create_access_key(UserName="tests")["AccessKey"]
            client.put_user_policy(
                UserName="tests", PolicyName="everything", PolicyDocument=_EVERYTHING
            )
        self.access_key, self.secret_key = key["AccessKeyId"], key["SecretAccessKey"]
        with closing(self._connection()) as connection:
            connection.request("POST", "/moto-api/reset-auth", body=b"0")
            if connection.getresponse().status != 200:
                raise RuntimeError(f"signatures can't be checked: {self.output()}")

    def _environment(self) -> dict[str, str]:
        """Without variables that configure other clients of object stores."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        return kept | {"MOTO_S3_DEFAULT_MAX_KEYS": str(self._page_keys)}
