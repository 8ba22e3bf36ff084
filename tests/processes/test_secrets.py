"""No secret of a running quorum is in its output: logs, termination messages, HTTP answers, metrics, answers of the Kafka port, quorumctl.

The quorum has known secrets: the admin token, passwords of users and the keys derived from them, an encrypted private key and its
password. Errors are provoked with each of them. The log itself is no output: it contains credentials, and needs the right to
read it.
"""

import base64
import contextlib
import io
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorum_node.client import QuorumAdminClient, QuorumClientError
from quorum_node.client.connections import Connections
from quorum_node.exit_codes import ExitCode
from quorum_node.protocol import apis, scram
from quorum_node.protocol.delegation_tokens import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from quorum_node.protocol.frames import encode_request
from quorum_node.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from quorum_node.quorumctl.main import main as quorumctl
from quorum_node.security.scram.mechanism import ScramMechanism
from support.generated_certificates import key_pem, pem
from support.local_quorum import TOKEN, LocalNode, wait_until
from support.sasl_quorum import (
    FIRST_USERS,
    PASSWORD,
    READER,
    READER_PASSWORD,
    USER,
    SaslQuorum,
    login_of,
)
from support.tls_quorum import certificate_of, write_at_once

SHA_512 = ScramMechanism.SHA_512
KEY_PASSWORD = "opens-the-key-file"
NEW_PASSWORD = "a-password-set-later"
SALT = b"salt that nobody has"
SALTED = SHA_512.salted_password(NEW_PASSWORD, SALT, 4096)
ROUTES = (
    "/v1/node", "/v1/quorum", "/v1/quorum?confirmed=true", "/v1/brokers", "/v1/reassignments", "/v1/voter-history",
    "/v1/configs", "/livez", "/readyz", "/metrics", "/openapi.json", "/v1/nothing", "/v1/log?from=x",
)  # fmt: skip


URLS_WITH_SECRETS = (
    f"http://admin:{TOKEN}@127.0.0.1:1",
    f"https://{TOKEN}@127.0.0.1:1",
    f"http://127.0.0.1:1/?token={TOKEN}",
    f"http://127.0.0.1:1#{TOKEN}",
    f"http://admin:{TOKEN}@127.0.0.1:no-port",
)
"""Where people put a token by mistake."""
DELEGATED = b"the hmac of a delegation token"


class SecretQuorum(SaslQuorum):
    """With an encrypted private key. `key_lines`: of that key, in both forms."""

    key_lines: list[str]

    def properties_of(self, node: LocalNode) -> dict[str, str]:
        found = super().properties_of(node)
        made = certificate_of("member", node.id, self.ca)
        hidden = key_pem(made.key, KEY_PASSWORD)
        write_at_once(self.folder(str(node.id)) / "keystore.pem", hidden + pem(made.certificate))
        lines = (hidden + key_pem(made.key)).decode().splitlines()
        self.key_lines = [line for line in lines if len(line) == 64]
        return {**found, "ssl.key.password": KEY_PASSWORD}


def forms(data: bytes) -> Iterator[str]:
    """How bytes may be written."""
    yield data.hex()
    yield base64.b64encode(data).decode().rstrip("=")
    yield base64.urlsafe_b64encode(data).decode().rstrip("=")
    yield repr(data)[2:-1]


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecretQuorum]:
    made = SecretQuorum(tmp_path_factory.mktemp("secrets"), 1)
    with made:
        made.form()
        yield made


def secrets_of(quorum: SecretQuorum) -> list[str]:
    """Texts that may be in no output."""
    found = [TOKEN, PASSWORD, READER_PASSWORD, NEW_PASSWORD, KEY_PASSWORD, *quorum.key_lines]
    for each in (DELEGATED, SALTED, SHA_512.stored_key(SALTED), SHA_512.server_key(SALTED)):
        found += forms(each)
    return found


def provoke(quorum: SecretQuorum, texts: list[str]) -> None:
    """Errors of every kind, with secrets in what is sent."""
    node = quorum.nodes[1]
    bare = ("127.0.0.1", quorum.ports[1]["BARE"])
    change = scram.ScramCredentialUpsertion(
        name="dora", mechanism=2, iterations=4096, salt=SALT, salted_password=SALTED
    )
    for upsertions in (
        (change,),
        (change, change),
    ):  # the second one is refused: twice the same user
        made = Connections("me", None, login_of())
        request = scram.AlterUserScramCredentialsRequest(deletions=(), upsertions=upsertions)
        kind = scram.AlterUserScramCredentialsResponse
        texts.append(repr(made.ask(bare, apis.ALTER_USER_SCRAM_CREDENTIALS, 0, request, kind, 5.0)))
        users = scram.DescribeUserScramCredentialsRequest(users=None)
        shown = scram.DescribeUserScramCredentialsResponse
        texts.append(
            repr(made.ask(bare, apis.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users, shown, 5.0))
        )
        made.close()
    for api, requested, answer in (
        (
            apis.RENEW_DELEGATION_TOKEN,
            RenewDelegationTokenRequest(hmac=DELEGATED, renew_period_ms=1),
            RenewDelegationTokenResponse,
        ),
        (
            apis.EXPIRE_DELEGATION_TOKEN,
            ExpireDelegationTokenRequest(hmac=DELEGATED, expiry_time_period_ms=1),
            ExpireDelegationTokenResponse,
        ),
    ):
        made = Connections("me", None, login_of())
        texts.append(repr(requested))
        texts.append(repr(made.ask(bare, api, 2, requested, answer, 5.0)))
        made.close()
    for user, password in ((USER, NEW_PASSWORD), (READER, PASSWORD)):
        with QuorumAdminClient(quorum.servers("BARE"), 2000, None, login_of(user, password)) as one:
            try:
                one.describe_quorum()
            except QuorumClientError as error:
                texts.append(repr(error))
    shake = encode_request(
        apis.SASL_HANDSHAKE, 1, 1, "me", SaslHandshakeRequest(mechanism="SCRAM-SHA-512")
    )
    for token in (
        b"n,,n=x,r=" + PASSWORD.encode() + b"\xff",
        b"\0alice\0" + PASSWORD.encode(),
        SALTED,
    ):
        body = SaslAuthenticateRequest(auth_bytes=token)
        send(bare, shake + encode_request(apis.SASL_AUTHENTICATE, 2, 2, "me", body))
    send(bare, TOKEN.encode() * 100)
    send(("127.0.0.1", node.port), b"Authorization: Bearer " + TOKEN.encode())
    for path in ROUTES:
        for headers in (
            {},
            {"Authorization": f"Bearer {TOKEN}"},
            {"Authorization": f"Basic {TOKEN}"},
        ):
            answer = quorum.client.get(node.admin_url + path, headers=headers)
            texts += [answer.text, str(answer.headers)]
    for content in ({"token": TOKEN}, f"not json {TOKEN}"):
        answer = quorum.client.post(
            node.admin_url + "/v1/voters",
            content=json.dumps(content) if isinstance(content, dict) else content,
            headers={"Authorization": f"Bearer {TOKEN}x"},
        )
        texts.append(answer.text.replace(f"{TOKEN}", "") if answer.is_success else answer.text)


def send(address: tuple[str, int], data: bytes) -> None:
    """Until the other side closes, or has answered and is silent."""
    with contextlib.suppress(OSError), socket.create_connection(address, 5.0) as made:
        made.sendall(data)
        made.settimeout(0.5)
        while made.recv(65536):
            pass


def test_output_of_a_quorum_contains_no_secret(
    quorum: SecretQuorum, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    texts: list[str] = []
    provoke(quorum, texts)
    node = quorum.nodes[1]
    # A keystore whose key does not match: the node keeps the previous one, and reports it.
    keystore = quorum.folder("1") / "keystore.pem"
    good = keystore.read_bytes()
    write_at_once(keystore, good.replace(good.splitlines()[2], b"A" * 64))
    wait_until(lambda: quorum.local(1)["tls"]["problem"], "the node sees the broken keystore")
    provoke(quorum, texts)
    write_at_once(keystore, good)
    token = tmp_path / "token"
    token.write_text(TOKEN)
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        for url in URLS_WITH_SECRETS:
            assert quorumctl(["--admin", url, "list"]) == 2
        assert quorumctl(["--token", TOKEN, "list"]) == 1
        for command in (["describe", "status"], ["describe", "replicas"], ["describe", "nothing"]):
            with contextlib.suppress(SystemExit):
                folder = str(quorum.folder("admin"))
                url = ["--admin", node.admin_url, "--tls", folder, "--token-file", str(token)]
                quorumctl([*url, *command])
    texts += [out.getvalue(), node.log_text, node.termination_message]
    limits = Path(f"/proc/{node.process.pid}/limits").read_text() if node.process else ""
    assert any(
        line.split()[4:6] in (["1", "1"], ["0", "0"])
        for line in limits.splitlines()
        if "core file" in line
    )
    node.terminate()
    texts += [node.log_text, node.termination_message]
    text = "\n".join(texts)
    assert "metadata_quorum_" in text
    assert "'dora'" in text or '"dora"' in text
    assert [each for each in secrets_of(quorum) if each in text] == []


@pytest.mark.parametrize(
    "lines",
    [
        "ssl.keystore.key=-----BEGIN PRIVATE KEY-----\n{key}\n-----END PRIVATE KEY-----\n",
        "ssl.keystore.key={key}\n",
        "ssl.keystore.certificate.chain={key}\n",
        "ssl.truststore.certificates={key}\n",
        "ssl.keystore.pasword=" + KEY_PASSWORD + "\n",
        "ssl.keystore.password=" + KEY_PASSWORD + "\n",
        "keystore.pw=" + KEY_PASSWORD + "\n",
        "{key}=\n",
        "{key} \n",
        "formation.scram.file={users}\n",
    ],
)
def test_rejected_start_prints_no_secret(quorum: SecretQuorum, tmp_path: Path, lines: str) -> None:
    """Line ends of a key that were not escaped, names that were misspelt, a file with a user that can't be read."""
    users = tmp_path / "users"
    users.write_text(FIRST_USERS.replace("]", f",{NEW_PASSWORD}]"))
    key = quorum.key_lines[1]
    node = quorum.add_node(9)
    path = node.root / "node.properties"
    text = path.read_text().replace(f"formation.scram.file={quorum.users}\n", "")
    path.write_text(text + lines.format(key=key, users=users))
    node.start()
    code = node.wait_exit()
    text = node.log_text + node.termination_message
    assert code == ExitCode.BAD_CONFIGURATION, text
    assert [each for each in secrets_of(quorum) if each in text] == []
    assert key[:16] not in text
    del quorum.nodes[9]
