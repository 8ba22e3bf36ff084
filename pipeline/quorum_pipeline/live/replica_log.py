"""The committed log of one replica, read by its admin API: `GET /v1/log?format=batches`.

Only the leader answers Fetch. Verifies checksums and offsets; the choice of the replica is made elsewhere. No Spark.
Uses `http.client`: this runs on Spark's executors, and a package for HTTP would have to be installed on each of them.
"""

from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from itertools import pairwise

from quorum_node.client.connections import Address
from quorum_node.client_tls import ClientTls, ClientTlsError
from quorum_node.host_port import HostPort
from quorum_node.records.batches import Batch, CorruptBatch, split_batches
from quorum_pipeline.errors import PipelineError

MAX_BYTES = 1 << 20
_MAX_ANSWER_BYTES = 16 << 20
"""An answer has at least one batch, however large."""
CONNECT_SECONDS, ANSWER_SECONDS = 2.0, 15.0
_MEDIA_TYPE = "application/octet-stream"
_FAILED, _BEFORE_START = 500, 410


class ReplicaUnread(PipelineError):
    """This replica does not serve these offsets, or not now."""


class ReplicaUnusable(ReplicaUnread):
    """This replica can't be reached, or does not serve batches to this client."""


class ReplicaLog:
    """One replica, to be closed by the caller. `tls`: with it HTTPS, without it HTTP. Raises ReplicaUnread."""

    def __init__(self, address: Address, tls: ClientTls | None) -> None:
        self.name = str(HostPort(*address))
        if tls is None:
            self._connection = HTTPConnection(*address, timeout=CONNECT_SECONDS)
            return
        try:
            context = tls.context()
        except ClientTlsError as error:
            raise ReplicaUnread(str(error)) from None
        self._connection = HTTPSConnection(*address, timeout=CONNECT_SECONDS, context=context)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def read(self, offset: int, end_offset: int, max_bytes: int = MAX_BYTES) -> list[Batch]:
        """Whole batches from the one with `offset` on; the last one may end after `end_offset`. At least one. Raises ReplicaUnread."""
        path = f"/v1/log?format=batches&fromOffset={offset}&maxBytes={max_bytes}"
        try:
            batches, rest = split_batches(self._get(path))
        except CorruptBatch as error:
            raise ReplicaUnread(f"{self.name}, after offset {offset}: {error}") from None
        if not batches:
            raise ReplicaUnread(f"{self.name} has no committed record at offset {offset} yet")
        first = batches[0].header
        gaps = [b for a, b in pairwise(batches) if a.header.end_offset != b.header.base_offset]
        if rest or gaps or not first.base_offset <= offset < first.end_offset:
            raise ReplicaUnread(f"{self.name} returned other offsets than those from {offset} on")
        return [each for each in batches if each.header.base_offset < end_offset]

    def _get(self, path: str) -> bytes:
        """The content of an answer. Raises ReplicaUnread."""
        kept = self._connection.sock is not None
        try:
            try:
                return self._exchange(path)
            except TimeoutError:
                raise
            except (OSError, HTTPException):
                # Servers close connections that are idle for long.
                if not kept:
                    raise
                self._connection.close()
                return self._exchange(path)
        # UnicodeError: a host name that can't be one.
        except (OSError, HTTPException, UnicodeError) as error:
            self._connection.close()
            why = str(error) or type(error).__name__
            raise ReplicaUnusable(f"{self.name}: {why}") from None

    def _exchange(self, path: str) -> bytes:
        if self._connection.sock is None:
            self._connect()
        self._connection.request("GET", path)
        answer = self._connection.getresponse()
        content = answer.read(_MAX_ANSWER_BYTES + 1)
        self._check(answer, len(content))
        return content

    def _connect(self) -> None:
        self._connection.connect()
        self._connection.sock.settimeout(ANSWER_SECONDS)

    def _check(self, answer: HTTPResponse, size_bytes: int) -> None:
        if answer.status == 200 and answer.headers.get_content_type() == _MEDIA_TYPE:
            if size_bytes > _MAX_ANSWER_BYTES:
                raise HTTPException(f"an answer of more than {_MAX_ANSWER_BYTES} bytes")
            return
        self._connection.close()
        text = f"{self.name} answers {answer.status}"
        if answer.status == _BEFORE_START or answer.status >= _FAILED:
            raise ReplicaUnread(text)
        raise ReplicaUnusable(f"{text} of the type {answer.headers.get_content_type()}")
