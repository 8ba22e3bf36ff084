"""Log lines about refused connections: once a minute each, and no peer uses up those of others."""

from structlog.testing import capture_logs

from quorum_node.server.observing.refused_peers import RefusedPeers


def test_client_that_invents_user_names_hides_no_other_refusals() -> None:
    now = [0.0]
    reports = RefusedPeers(lambda: now[0])
    with capture_logs() as logs:
        for number in range(200):
            reports.client_refused("TOOLS", "10.0.0.9", f"'user-{number}': no usable credential")
        flood = len(logs)
        reports.client_refused("TOOLS", "10.0.0.1", "'alice': wrong password")
        reports.client_refused("CONTROLLER", "10.0.0.9", "the handshake timed out")
        reports.server_refused("10.0.0.2:9093", "the handshake timed out")
        assert len(logs) == flood + 3
        now[0] = 61.0
        reports.client_refused("TOOLS", "10.0.0.9", "'alice': wrong password")
    assert flood == 20
    texts = [entry["event"] for entry in logs]
    assert [each for each in range(len(texts)) if "left out for a minute" in texts[each]] == [19]
    assert "'alice': wrong password" in texts[-1]
