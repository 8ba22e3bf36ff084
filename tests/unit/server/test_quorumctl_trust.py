"""Where quorumctl sends the token: to what the caller named or trusts, never where only the log points."""

import pytest

from quorum_node.quorumctl.trust import Trust

POD_DOMAIN = "demo-nodes.prod.svc.cluster.local"


@pytest.mark.parametrize(
    ("url", "covered"),
    [
        ("http://one:8080", True),
        ("http://ONE:8080/", True),
        ("http://one:8081", False),
        ("https://one:8080", False),
        ("http://two:8080", True),
        ("http://two:1", True),
        ("http://a.quorum.example:8080", True),
        ("http://quorum.example:8080", False),
        ("http://evilquorum.example:8080", False),
        ("http://one@evil:8080", False),
        ("http://one:8080@evil:80", False),
        ("ftp://one:8080", False),
        ("http://one:notaport", False),
        ("nonsense", False),
        ("", False),
    ],
)
def test_only_named_urls_and_trusted_hosts_are_allowed(url: str, covered: bool) -> None:
    trust = Trust(["http://one:8080"], ["two", ".quorum.example"], domain=lambda: "")
    assert trust.covers(url) is covered


@pytest.mark.parametrize(
    ("host", "covered"),
    [
        ("demo-1-0-0.demo-nodes.prod.svc", True),
        ("demo-1-0-0.demo-nodes.prod.svc.cluster.local", True),
        ("demo-1-0-0.other-nodes.prod.svc", False),
        ("demo-1-0-0.demo-nodes.test.svc", False),
        ("demo-1-0-0.demo-nodes.prod.svc.evil.example", False),
        ("demo-nodes.prod.svc", False),
        ("x.demo-nodes", False),
        ("10.0.0.9", False),
        ("evil.example", False),
    ],
)
def test_pod_trusts_the_pods_of_its_own_service(host: str, covered: bool) -> None:
    url = f"http://{host}:8080"
    assert Trust([], [], domain=lambda: POD_DOMAIN).covers(url) is covered
    assert not Trust([], [], domain=lambda: "").covers(url)
