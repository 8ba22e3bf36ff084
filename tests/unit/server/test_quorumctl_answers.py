"""quorumctl and servers that are no admin API, that refuse it, or that do not answer: one line that says what to do."""

import contextlib
import io
import json
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from quorum_node.quorumctl import main as quorumctl
from quorum_node.quorumctl.output import show
from support.one_answer_server import Answer, OneAnswerServer
from support.tls_quorum import certificate_of, new_authority, write_folder

Serve = Callable[..., OneAnswerServer]
NOBODY = "http://127.0.0.1:1"


@pytest.fixture
def serve() -> Iterator[Serve]:
    with contextlib.ExitStack() as servers:

        def start(answer: Answer, tls: ssl.SSLContext | None = None) -> OneAnswerServer:
            return servers.enter_context(OneAnswerServer(answer, tls))

        yield start


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The line that a failing command prints."""
    assert quorumctl.main([*arguments, "--timeout-ms", "1"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1, printed.err
    assert printed.err.startswith("quorumctl: ")
    return printed.err.removeprefix("quorumctl: ").rstrip("\n")


def refusal(code: str, **more: str) -> Answer:
    return 503, {}, json.dumps({"code": code, "message": "refused", **more}).encode()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((200, {}, b"<html>\n<body>login\n"), "can't read (Invalid JSON"),
        ((200, {}, b"{}"), "can't read (clusterId: Field required)"),
        ((200, {"Content-Encoding": "gzip"}, b"plain"), "can't read (Error -3"),
        ((200, {"Content-Length": "99"}, b"{"), "does not answer (peer closed connection"),
        ((502, {}, b"<html>\r\n<b>502</b>\r\n"), "answered 502: <html> <b>502</b>: is this"),
        ((302, {"Location": "/login"}, b""), "answered 302: Found: is this"),
        ((404, {}, b""), "answered 404: Not Found: is this the admin listener of a node?"),
    ],
)
def test_answer_of_another_server_is_one_line(
    answer: Answer, told: str, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    url = serve(answer).url
    line = run(capsys, "describe", "--admin", url)
    assert line.startswith(url)
    assert told in line


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        (["put", "topic/orders/retention.ms", "1"], "unless another client writes the same key"),
        (["resign"], "check the quorum before you repeat the command"),
        (["remove-voter", "1", "A" * 22], "check the quorum before you repeat the command"),
    ],
)
def test_change_whose_answer_is_lost_is_not_repeated(
    command: list[str], advice: str, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may have been made, and another client may have made another change since."""
    first, second = (serve((200, {"Content-Length": "99"}, b"{")) for _ in range(2))
    common = ["--timeout-ms", "600", "--admin", f"{first.url},{second.url}"]
    assert quorumctl.main([*common, *command]) == 1
    line = capsys.readouterr().err
    assert line.startswith(f"quorumctl: {first.url} did not answer (peer closed connection")
    assert line.rstrip().endswith(advice)
    assert (len(first.paths), len(second.paths)) == (1, 0)


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (
            ["put", "topic/orders/retention.ms", "1"],
            "refused; repeating the command is safe unless another client writes the same key",
        ),
        (
            ["remove-voter", "1", "A" * 22],
            "refused; check the quorum before you repeat the command",
        ),
        (["describe"], "refused"),
    ],
)
def test_advice_on_repeating_a_command_fits_to_what_it_changes(
    command: list[str], line: str, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, *command, "--admin", serve(refusal("TIMED_OUT")).url) == line


def test_answer_of_a_node_is_reported_before_the_silence_of_others(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in a quorum that has lost its majority: the node that is left says that there is no leader."""
    left = serve(refusal("NO_LEADER")).url
    line = run(capsys, "describe", "--admin", f"{left},{NOBODY},http://127.0.0.1:2")
    assert line.startswith("refused; 2 of 3 nodes do not answer. What the others know is in")


def test_leader_that_does_not_answer_is_reported_with_the_node_that_names_it(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    left = serve(refusal("NOT_LEADER", leaderUrl=NOBODY)).url
    line = run(capsys, "describe", "--admin", f"{left},{NOBODY}")
    assert line.startswith(f"{left} names a leader, but {NOBODY} does not answer (")
    assert "; 1 of 2 nodes do not answer. " in line


def test_silence_of_all_nodes_is_reported_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    line = run(capsys, "describe", "--admin", f"http://127.0.0.1:2,{NOBODY}")
    assert line.startswith(f"none of 2 nodes answers; {NOBODY} does not answer (")


def test_failed_tls_handshake_is_reported_with_its_remedy(
    tmp_path: Path, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    authority, other = new_authority(), new_authority("ca-2")
    write_folder(tmp_path / "node", certificate_of("member", 1, authority), authority.certificate)
    write_folder(tmp_path / "admin", certificate_of("admin", None, authority), other.certificate)
    named = certificate_of("member", 2, authority, hosts=("elsewhere.example",))
    write_folder(tmp_path / "named", named, authority.certificate)
    write_folder(
        tmp_path / "other", certificate_of("admin", None, authority), authority.certificate
    )
    expired = certificate_of("member", 3, authority, start=-timedelta(9), end=-timedelta(8))
    write_folder(tmp_path / "expired", expired, authority.certificate)
    node, elsewhere, late = (ssl.create_default_context(ssl.Purpose.CLIENT_AUTH) for _ in range(3))
    node.load_cert_chain(tmp_path / "node" / "keystore.pem")
    elsewhere.load_cert_chain(tmp_path / "named" / "keystore.pem")
    late.load_cert_chain(tmp_path / "expired" / "keystore.pem")
    answer: Answer = (404, {}, b"")
    secure = serve(answer, node).url
    for arguments, advice in (
        (["--admin", secure, "--tls", f"{tmp_path}/admin"], "is --tls the folder with the ca.crt"),
        (
            ["--admin", serve(answer, elsewhere).url, "--tls", f"{tmp_path}/other"],
            "use a host name or address that its certificate contains",
        ),
        (
            ["--admin", serve(answer, late).url, "--tls", f"{tmp_path}/other"],
            "renew its certificate, or correct the clock",
        ),
        (
            ["--admin", serve(answer).url.replace("http:", "https:")],
            "it does not use TLS: write http://",
        ),
        (["--admin", secure.replace("https:", "http:")], "write https://"),
    ):
        assert advice in run(capsys, "describe", *arguments)


def test_certificate_of_a_node_to_add_is_checked_though_the_quorum_has_none(
    tmp_path: Path, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise whoever answers at that address would get the admin token."""
    authority = new_authority()
    write_folder(tmp_path, certificate_of("member", 1, authority), authority.certificate)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "keystore.pem")
    node = serve((200, {}, b"{}"), context)
    line = run(capsys, "--admin", NOBODY, "add-voter", "--node", node.url)
    assert "CERTIFICATE_VERIFY_FAILED" in line
    assert node.paths == []


def test_certificate_is_checked_however_the_scheme_is_written(
    tmp_path: Path, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    """A scheme has no case (RFC 3986, 3.1)."""
    authority = new_authority()
    write_folder(tmp_path, certificate_of("member", 1, authority), authority.certificate)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "keystore.pem")
    (tmp_path / "token").write_text("secret\n")
    node = serve((200, {}, b"{}"), context)
    for scheme in ("HTTPS", "Https", "https"):
        url = node.url.replace("https", scheme)
        line = run(capsys, "--admin", url, "--token-file", f"{tmp_path}/token", "describe")
        assert "CERTIFICATE_VERIFY_FAILED" in line
    assert node.authorizations == []


def test_leader_in_clear_text_is_not_followed_however_its_scheme_is_written(
    tmp_path: Path, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    authority = new_authority()
    made = certificate_of("member", 1, authority, hosts=("127.0.0.1",))
    write_folder(tmp_path, made, authority.certificate)
    (tmp_path / "tls.crt").unlink()
    (tmp_path / "tls.key").unlink()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "keystore.pem")
    (tmp_path / "token").write_text("secret\n")
    plain = serve((200, {}, b"{}"))
    for scheme in ("HTTP", "http"):
        node = serve(refusal("NOT_LEADER", leaderUrl=plain.url.replace("http", scheme)), context)
        arguments = ("--tls", str(tmp_path), "--token-file", f"{tmp_path}/token", "describe")
        line = run(capsys, "--trust", "127.0.0.1", "--admin", node.url, *arguments)
        assert line.startswith("refused; if that address is right")
        assert node.authorizations == ["Bearer secret"]
    assert plain.paths == []


def test_first_token_of_a_file_is_sent_while_tokens_are_rotated(
    tmp_path: Path, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    """A node accepts every line of the same file."""
    path = tmp_path / "token"
    for before in ("", "\ufeff"):  # a mark that editors of Windows write
        path.write_text(f"{before}\n old\r\nnew\n")
        server = serve((404, {}, b""))
        run(capsys, "--admin", server.url, "--token-file", str(path), "describe")
        assert server.authorizations == ["Bearer old"]


def test_watch_prints_why_no_node_answers(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    url = serve(refusal("UNAUTHORIZED")).url
    assert quorumctl.main(["watch", "--count", "1", "--admin", url]) == 0
    assert "0/1 nodes answer: refused; specify the admin token" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["--admin", "127.0.0.1:1"], "is not an admin URL: write http://host:8080"),
        (["--json"], "watch prints no JSON"),
    ],
)
def test_watch_refuses_wrong_usage(
    arguments: list[str], advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert quorumctl.main(["watch", "--count", "1", *arguments]) == 2
    assert advice in capsys.readouterr().err


def test_option_of_all_views_is_used_before_and_after_the_view(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    server = serve((404, {}, b""))
    run(capsys, "--admin", server.url, "describe", "--unconfirmed", "status")
    run(capsys, "--admin", server.url, "describe", "status", "--unconfirmed")
    run(capsys, "--admin", server.url, "describe", "replication")
    assert ["confirmed=false" in path for path in server.paths] == [True, True, False]


def test_watch_whose_output_can_not_be_written_ends_with_one_line() -> None:
    program = [sys.executable, "-m", "quorum_node.quorumctl.main", "watch", "--admin", NOBODY]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    line = "quorumctl: the output can't be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, line)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_json_is_valid_in_any_encoding(
    encoding: str, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = {"resourceType": "topic", "resourceName": "ü", "name": "→", "value": "😀"}
    found = {"entries": [entry], "offset": 1, "consistency": "local", "ageMs": 0}
    url = serve((200, {}, json.dumps(found).encode())).url
    content = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(content, encoding=encoding))
    assert quorumctl.main(["--json", "list", "--admin", url]) == 0
    assert json.loads(content.getvalue().decode(encoding))["entries"] == [entry]


def test_progress_is_printed_in_any_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    content = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(content, encoding="latin-1"))
    show("[1] → [1, 2]")
    assert content.getvalue() == b"[1] \\u2192 [1, 2]\n"
