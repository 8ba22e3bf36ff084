"""The requests to an object store with an S3 API.

Owns their form: pages of listings, parts of large objects, pieces of bounded size, time limits, and one clear line for
each error. No request is retried: an error ends the command, and its caller starts it again. Only `connect` imports
boto3, because most processes of a node never use it.
"""

import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from quorum_node.backups.files import PIECE_BYTES
from quorum_node.backups.manifest import BackupError
from quorum_node.backups.object_address import NO_ENDPOINT, ObjectAddress, is_endpoint
from quorum_node.missing_extra import advice

PART_BYTES = 16 << 20
"""Objects above this size are written in parts. A part is held in memory."""
_MOST_PARTS = 10_000
_MOST_PAGES = 1_000
_OF_A_LISTING = frozenset({"IsTruncated", "Name", "Bucket", "KeyCount", "MaxKeys", "MaxUploads"})
"""Fields of the listings of objects and uploads. Every store sends some of them, also if it has nothing to list."""
_CONNECT_S = 10.0
READ_S = 60.0


class ObjectStore:
    """One bucket. Every call may raise BackupError: see object_errors.ObjectStoreError."""

    def __init__(self, client: Any, address: ObjectAddress) -> None:
        self._client, self._address = client, address
        self._bucket = address.bucket

    def close(self) -> None:
        """Close its connections."""
        self._client.close()

    def write_once(self, key: str, content: bytes) -> None:
        """Write a small object; ObjectStoreError.exists_already if there is one."""
        with self._asking("write", key):
            self._client.put_object(Bucket=self._bucket, Key=key, Body=content, IfNoneMatch="*")

    def write(self, key: str, content: bytes) -> None:
        """Write, or overwrite, a small object."""
        with self._asking("write", key):
            self._client.put_object(Bucket=self._bucket, Key=key, Body=content)

    def upload(self, key: str, path: Path) -> None:
        """Write a file. An upload that fails is aborted."""
        size = path.stat().st_size
        if size <= PART_BYTES:
            with path.open("rb") as file, self._asking("write", key):
                self._client.put_object(Bucket=self._bucket, Key=key, Body=file)
            return
        with self._asking("write", key):
            upload_id = self._client.create_multipart_upload(Bucket=self._bucket, Key=key)[
                "UploadId"
            ]
        try:
            parts = list(self._parts(key, upload_id, path, size))
            with self._asking("complete", key):
                self._client.complete_multipart_upload(
                    Bucket=self._bucket,
                    Key=key,
                    UploadId=upload_id,
                    MultipartUpload={"Parts": parts},
                )
        except BaseException:
            self.abort_quietly(key, upload_id)
            raise

    def _parts(self, key: str, upload_id: str, path: Path, size: int) -> Iterator[dict[str, Any]]:
        part_bytes = max(PART_BYTES, math.ceil(size / _MOST_PARTS))
        with path.open("rb") as file:
            for number in range(1, math.ceil(size / part_bytes) + 1):
                with self._asking(f"write part {number} of", key):
                    part = self._client.upload_part(
                        Bucket=self._bucket,
                        Key=key,
                        UploadId=upload_id,
                        PartNumber=number,
                        Body=file.read(part_bytes),
                    )
                    yield {"PartNumber": number, "ETag": part["ETag"]}

    def abort(self, key: str, upload_id: str) -> None:
        """End an upload and delete its parts. A missing upload is not an error."""
        from quorum_node.backups.object_errors import ObjectStoreError

        try:
            with self._asking("abort the upload of", key):
                self._client.abort_multipart_upload(
                    Bucket=self._bucket, Key=key, UploadId=upload_id
                )
        except ObjectStoreError as error:
            if not error.is_missing:
                raise

    def abort_quietly(self, key: str, upload_id: str) -> None:
        """Abort an upload after an error. An error here is ignored, as the first one is reported; a later run aborts the rest."""
        try:
            self.abort(key, upload_id)
        except BackupError:
            pass

    def pieces(self, key: str) -> Iterator[bytes]:
        """Read an object."""
        with self._asking("read", key):
            body = self._client.get_object(Bucket=self._bucket, Key=key)["Body"]
            try:
                yield from body.iter_chunks(PIECE_BYTES)
            finally:
                body.close()

    def read(self, key: str, most_bytes: int) -> bytes | None:
        """A small object; None if there is none. Raises BackupError if it is larger."""
        from quorum_node.backups.object_errors import ObjectStoreError

        found = b""
        try:
            for data in self.pieces(key):
                found += data
                if len(found) > most_bytes:
                    raise BackupError(
                        f"{self.place_of(key)} is larger than {most_bytes} bytes, so it is no file that quorum-backup wrote:"
                        " use another backup"
                    )
        except ObjectStoreError as error:
            if error.is_missing:
                return None
            raise
        return found

    def folders(self, prefix: str) -> list[str]:
        """Names of the folders in a folder; `prefix` is empty or ends with a slash."""
        found = []
        for page in self._pages("list_objects_v2", prefix, Delimiter="/"):
            found += [each["Prefix"] for each in page.get("CommonPrefixes") or ()]
        return [each.removeprefix(prefix).rstrip("/") for each in found]

    def keys(self, prefix: str) -> Iterator[str]:
        """Keys of all objects with this prefix."""
        for page in self._pages("list_objects_v2", prefix):
            yield from (each["Key"] for each in page.get("Contents") or ())

    def uploads(self, prefix: str) -> Iterator[tuple[str, str]]:
        """Keys and ids of the unfinished uploads with this prefix."""
        for page in self._pages("list_multipart_uploads", prefix):
            for each in page.get("Uploads") or ():
                # some stores list all uploads of the bucket
                if each["Key"].startswith(prefix):
                    yield each["Key"], each["UploadId"]

    def delete(self, key: str) -> None:
        """Delete an object. A missing object is not an error."""
        with self._asking("delete", key):
            self._client.delete_object(Bucket=self._bucket, Key=key)

    def place_of(self, key: str) -> str:
        """Location of an object, for messages."""
        return f"s3://{self._bucket}/{key}"

    def _pages(self, operation: str, prefix: str, **more: str) -> Iterator[dict[str, Any]]:
        asked = self._client.get_paginator(operation).paginate(
            Bucket=self._bucket, Prefix=prefix, **more
        )
        with self._asking("list", prefix):
            for number, page in enumerate(asked, 1):
                if number > _MOST_PAGES:
                    raise BackupError(
                        f"{self.place_of(prefix)} has too many objects: use a prefix that holds backups alone"
                    )
                if _OF_A_LISTING.isdisjoint(page):
                    # Another server sent some XML, such as a page in XHTML. An empty listing would hide all backups.
                    raise KeyError(operation)
                yield page

    def _asking(self, act: str, key: str) -> Any:
        from quorum_node.backups.object_errors import store_errors

        return store_errors(f"{act} {self.place_of(key)}", self._client.meta.endpoint_url)


def connect(address: ObjectAddress, read_s: float = READ_S) -> ObjectStore:
    """A client with the credentials that boto3 finds; nothing is sent yet. Raises BackupError."""
    try:
        from boto3.session import Session
        from botocore.config import Config
    except ModuleNotFoundError as error:
        raise BackupError(
            f"{address}: the Python package {(error.name or '').partition('.')[0]} is not installed."
            f" {advice('object-store')}"
        ) from None
    except ImportError as error:
        why = " ".join(str(error).split())
        raise BackupError(
            f"{address}: the Python package boto3 can't be used: {why}. {advice('object-store')}"
        ) from None
    from quorum_node.backups.object_errors import store_errors

    style = {None: "auto", True: "path", False: "virtual"}[address.path_style]
    config = Config(
        connect_timeout=_CONNECT_S,
        read_timeout=read_s,
        retries={"total_max_attempts": 1},
        # Stores other than S3 refuse its newer checksums. Written data is read back and compared in any case.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        s3={"addressing_style": style},
    )
    with store_errors(f"use {address}", address.endpoint or "the endpoint"):
        session = Session()
        region = address.region or session.region_name or os.environ.get("AWS_REGION")
        try:
            client = session.client(
                "s3", endpoint_url=address.endpoint, region_name=region, config=config
            )
        except ValueError as error:
            if "endpoint" not in str(error).lower():
                raise
            raise BackupError(_WRONG_ENDPOINT) from None  # the error shows all of it
        if not is_endpoint(client.meta.endpoint_url):
            raise BackupError(_WRONG_ENDPOINT)
        _check_credentials(session)
    return ObjectStore(client, address)


_WRONG_ENDPOINT = (
    "the endpoint in boto3's environment variables or configuration file (AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL,"
    f" endpoint_url) {NO_ENDPOINT}"
)
_IN_A_HEADER = re.compile("[!-~]+")


def _check_credentials(session: Any) -> None:
    """Refuse credentials that no HTTP header can carry: the library that sends them shows the header in its error.

    A line break at the end comes with a Secret that was made from a file. Raises BackupError without any part of them.
    """
    found = session.get_credentials()
    if found is None:
        return  # reported by the first request
    frozen = found.get_frozen_credentials()
    for name, value in (
        ("AWS_ACCESS_KEY_ID", frozen.access_key),
        ("AWS_SECRET_ACCESS_KEY", frozen.secret_key),
        ("AWS_SESSION_TOKEN", frozen.token),
    ):
        if value and not _IN_A_HEADER.fullmatch(value):
            raise BackupError(
                f"{name} contains a space, a line break or a character that is not ASCII: correct the credentials, for"
                " example the line break at the end of a file that a Secret was made from"
            )
