"""The timeout of the admin client limits a whole call, however many servers do not answer."""

import pytest

from quorum_node.client import NoLeader, QuorumAdminClient, admin
from quorum_node.client.connections import Connections
from quorum_node.client_sasl import ClientSasl
from quorum_node.security.scram.mechanism import ScramMechanism

SERVERS = [f"127.0.0.1:{port}" for port in range(9001, 9008)]


class Clock:
    """Stands in for the module `time`."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.now += seconds


@pytest.mark.parametrize("logs_in", [False, True])
def test_servers_that_hang_do_not_prolong_a_call(
    logs_in: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, asked = Clock(), []

    def hang(self: Connections, address: object, *rest: object) -> None:
        (seconds,) = (each for each in rest if isinstance(each, float))
        asked.append(address)
        clock.now += seconds
        raise TimeoutError("timed out")

    monkeypatch.setattr(admin, "time", clock)
    monkeypatch.setattr(Connections, "ask", hang)
    login = ClientSasl(ScramMechanism.SHA_512, "u", "p") if logs_in else None
    with (
        QuorumAdminClient(SERVERS, timeout_ms=12_000, sasl=login) as client,
        pytest.raises(NoLeader, match=r"127\.0\.0\.1:90.*timed out"),
    ):
        client.describe_quorum()
    assert clock.now <= 12.1
    assert len(asked) >= 3
