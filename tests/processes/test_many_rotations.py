"""Key pairs, the authority and the admin token are each rotated a hundred times under load. No write fails, none waits longer.

One of each is in `test_tls_rotation`. Here quiet windows and windows with a rotation take turns, so that a busy machine counts on both sides.
"""

import os
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256

from support.local_quorum import TOKEN, wait_until
from support.tls_quorum import TlsQuorum, client_context, new_authority, write_at_once

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

ROUNDS = int(os.environ.get("ROTATIONS", "100"))
WRITES = 40
"""In each window."""
OF_AUTHORITY = 5
"""In every fifth round the authority is replaced, too."""
BLOCKS = 4
"""The longest gap of all is what else the machine did at that moment. So it is compared in each block, and the calmest one counts."""
MAX_RATIO = 1.2
QUIET_FLOOR_MS = 20.0
"""A longest gap below it is an ordinary one."""


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[TlsQuorum]:
    with TlsQuorum(tmp_path / "quorum", 3) as made:
        made.form()
        yield made


@dataclass
class Writer:
    """Writes to the leader with the newest token alone, by a new connection in each window. Each write is tried once."""

    quorum: TlsQuorum
    token: str = TOKEN
    failed: list[str] = field(default_factory=list)
    written: int = 0

    def window(self) -> float:
        """The longest time between two acknowledged writes, in milliseconds."""
        longest = 0.0
        context = client_context(None, self.quorum.folder("admin") / "ca.crt")
        headers = {"Authorization": f"Bearer {self.token}"}
        url = self.quorum.leader.admin_url
        with httpx.Client(trust_env=False, verify=context, headers=headers, timeout=10) as client:
            client.get(f"{url}/livez")
            before = time.perf_counter()
            for _ in range(WRITES):
                self.written += 1
                body = {"value": str(self.written), "timeoutMs": 5000}
                key = f"/v1/configs/topic/t/key-{self.written % 50}"
                answer = client.put(url + key, json=body)
                if not answer.is_success:
                    self.failed.append(answer.text)
                now = time.perf_counter()
                longest, before = max(longest, (now - before) * 1000), now
        return longest


def renew_pairs(quorum: TlsQuorum) -> None:
    """Of all members; `used` waits until they show them."""
    for node_id in quorum.nodes:
        quorum.issue_for("member", node_id)
    quorum.issue_for("admin", None)
    quorum.client.close()
    quorum.client = quorum.make_client()


def pairs_are_used(quorum: TlsQuorum) -> bool:
    def is_used(node_id: int) -> bool:
        data = (quorum.folder(str(node_id)) / "tls.crt").read_bytes()
        wanted = x509.load_pem_x509_certificate(data).fingerprint(SHA256()).hex()
        return bool(quorum.local(node_id)["tls"]["certificate"]["sha256"] == wanted)

    return all(is_used(node_id) for node_id in quorum.nodes)


def trusts(quorum: TlsQuorum, count: int) -> bool:
    return all(len(quorum.local(each)["tls"]["trusted"]) == count for each in quorum.nodes)


def replace_authority(quorum: TlsQuorum, number: int, writer: Writer) -> list[float]:
    """In the three steps of the how-to; a window after each."""
    old, new = quorum.ca, new_authority(f"ca-{number}")
    windows = []
    quorum.trust(old.certificate, new.certificate)
    windows.append(writer.window())
    wait_until(lambda: trusts(quorum, 2), "all trust both")
    quorum.ca = new
    renew_pairs(quorum)
    windows.append(writer.window())
    wait_until(lambda: pairs_are_used(quorum), "all show what the new one has signed")
    quorum.trust(new.certificate)
    windows.append(writer.window())
    wait_until(lambda: trusts(quorum, 1), "all trust the new one alone")
    return windows


def test_hundred_certificate_rotations_fail_and_delay_no_write(quorum: TlsQuorum) -> None:
    epoch = quorum.describe()["leaderEpoch"]
    processes = [node.process for node in quorum.nodes.values()]
    tokens = quorum.root / "token"
    assert tokens.read_text().split() == [TOKEN]
    writer = Writer(quorum)
    quiet, rotated = list[float](), list[float]()
    for number in range(1, ROUNDS + 1):
        windows = 1 if number % OF_AUTHORITY else 3
        quiet += [writer.window() for _ in range(windows)]
        fresh = f"token-{number}-of-a-rotation"
        write_at_once(tokens, f"{writer.token}\n{fresh}\n{TOKEN}\n".encode())
        if number % OF_AUTHORITY:
            renew_pairs(quorum)
            rotated.append(writer.window())
            wait_until(lambda: pairs_are_used(quorum), "all show the new pair")
        else:
            rotated += replace_authority(quorum, number, writer)
        wait_until(lambda fresh=fresh: is_accepted_by_all(quorum, fresh), "all take the new token")
        gone, writer.token = writer.token, fresh
        write_at_once(tokens, f"{fresh}\n{TOKEN}\n".encode())
        if gone != TOKEN:
            wait_until(
                lambda gone=gone: not is_accepted_by_all(quorum, gone), "the old token is refused"
            )
    assert writer.failed == []
    assert quorum.describe()["leaderEpoch"] == epoch, "there was an election"
    assert [node.process for node in quorum.nodes.values()] == processes
    assert len(quiet) == len(rotated)
    longest = [statistics.median(each) for each in (quiet, rotated)]
    size = max(1, len(quiet) // BLOCKS)
    ratios = [
        max(rotated[at : at + size]) / max(*quiet[at : at + size], QUIET_FLOOR_MS)
        for at in range(0, len(quiet), size)
    ]
    print(
        f"{writer.written} writes; longest gap of a window: median {longest[0]:.1f} ms quiet, {longest[1]:.1f} ms rotating;"
        f" of all {max(quiet):.1f} and {max(rotated):.1f} ms; of blocks {[round(each, 2) for each in ratios]} times"
    )
    assert longest[1] <= MAX_RATIO * max(longest[0], QUIET_FLOOR_MS)
    assert min(ratios) <= MAX_RATIO


def is_accepted_by_all(quorum: TlsQuorum, token: str) -> bool:
    """Accepted by all members: a change without a body is rejected as malformed, and one without a token as unauthorized."""
    context = client_context(None, quorum.folder("admin") / "ca.crt")
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(trust_env=False, verify=context, headers=headers, timeout=10) as client:
        codes = {
            client.put(f"{node.admin_url}/v1/configs/topic/t/k", json={}).status_code
            for node in quorum.nodes.values()
        }
    return 401 not in codes
