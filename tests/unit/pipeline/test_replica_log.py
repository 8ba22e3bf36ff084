"""The client of a replica's admin API: HTTPS with the archiver's certificate, and which answers are usable."""

import ssl
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from quorum_node.client_tls import tls_of_folder
from quorum_node.records.batches import encode_values
from quorum_pipeline.live.replica_log import ReplicaLog, ReplicaUnread, ReplicaUnusable
from support.one_answer_server import OneAnswerServer
from support.tls_quorum import certificate_of, new_authority, write_folder

BINARY = {"Content-Type": "application/octet-stream"}


def batch(offset: int, count: int = 3) -> bytes:
    values = [b"value"] * count
    return encode_values(base_offset=offset, leader_epoch=1, timestamp_ms=5, values=values)


def address_of(server: OneAnswerServer) -> tuple[str, int]:
    host, _, port = server.url.rpartition("/")[2].rpartition(":")
    return host, int(port)


def read(server: OneAnswerServer, offset: int = 4, end: int = 100) -> list[int]:
    with closing(ReplicaLog(address_of(server), None)) as replica:
        return [each.header.base_offset for each in replica.read(offset, end)]


def test_whole_batches_from_the_one_with_the_offset_are_read() -> None:
    with OneAnswerServer((200, BINARY, batch(3) + batch(6) + batch(9))) as server:
        assert read(server) == [3, 6, 9]
        assert read(server, end=9) == [3, 6]
        assert server.paths[0] == "/v1/log?format=batches&fromOffset=4&maxBytes=1048576"


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize(
    ("status", "headers", "content", "error", "says"),
    [
        (200, BINARY, b"", ReplicaUnread, "no committed record at offset 4 yet"),
        (200, BINARY, flipped(batch(3)), ReplicaUnread, "checksum differs"),
        (200, BINARY, batch(3) + batch(6)[:40], ReplicaUnread, "other offsets"),
        (200, BINARY, batch(3) + batch(7), ReplicaUnread, "other offsets"),
        (200, BINARY, batch(6), ReplicaUnread, "other offsets"),
        (503, {}, b"{}", ReplicaUnread, "answers 503"),
        (410, {}, b"{}", ReplicaUnread, "answers 410"),
        (403, {}, b"{}", ReplicaUnusable, "answers 403"),
        (200, {"Content-Type": "application/json"}, b"{}", ReplicaUnusable, "application/json"),
    ],
)
def test_other_answers_are_an_error(
    status: int, headers: dict[str, str], content: bytes, error: type[Exception], says: str
) -> None:
    with (
        OneAnswerServer((status, headers, content)) as server,
        pytest.raises(error, match=says) as found,
    ):
        read(server)
    assert type(found.value) is error


@pytest.fixture
def folder_of(tmp_path: Path) -> Callable[[str], Path]:
    """The folder of a role, with certificates of one authority."""
    ca = new_authority()

    def made(role: str) -> Path:
        folder = tmp_path / role
        write_folder(folder, certificate_of(role, None, ca), ca.certificate)
        return folder

    return made


def test_certificate_is_shown_over_https(folder_of: Callable[[str], Path]) -> None:
    member, archiver = folder_of("member"), folder_of("archiver")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(member / "ca.crt"))
    context.load_cert_chain(member / "tls.crt", member / "tls.key")
    context.verify_mode = ssl.CERT_REQUIRED
    with OneAnswerServer((200, BINARY, batch(3)), context) as server:
        with closing(ReplicaLog(address_of(server), tls_of_folder(archiver))) as replica:
            assert [each.header.base_offset for each in replica.read(4, 9)] == [3]
        for each in ("tls.crt", "tls.key"):
            (archiver / each).unlink()
        for tls in (tls_of_folder(archiver), None):
            with (
                closing(ReplicaLog(address_of(server), tls)) as replica,
                pytest.raises(ReplicaUnusable),
            ):
                replica.read(4, 9)
        tls = tls_of_folder(archiver)
        (archiver / "ca.crt").unlink()
        with pytest.raises(ReplicaUnread, match="no trusted certificates can be read"):
            ReplicaLog(address_of(server), tls)


def test_host_that_can_have_no_address_is_unusable() -> None:
    host = "a" * 70  # longer than a label of a name
    with closing(ReplicaLog((host, 1), None)) as replica, pytest.raises(ReplicaUnusable):
        replica.read(4, 9)
