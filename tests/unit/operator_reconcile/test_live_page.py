"""The live page: what it shows, that it is one document, who may read it; once in a real browser."""

import asyncio
import shutil
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest

from quorum_operator.live_page import LastMoves, LivePage, PageAddress
from quorum_operator.page_document import MOST_MOVES, MOST_QUORUMS, Move, Shown, document
from quorum_operator.settings import from_environment
from quorum_operator.status_crd import LeaderStatus, MetadataQuorumStatus, Phase, PlanStatus
from support.declared_metrics import full_status
from support.in_memory_kube_api import NAME, SPACE, HealthyNodes, reconciler, repeat, running_quorum

NOW = "2026-11-23T22:00:00Z"
EVIL = '<script>alert("x")</script>'
_OF_THIS_PAGE = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "span"}
_OF_THIS_PAGE |= {"section", "table", "tr", "th", "td"}


def status() -> MetadataQuorumStatus:
    made = full_status()
    made.phase, made.leader = Phase.REPAIRING, LeaderStatus(id=2, epoch=9)
    made.plan = PlanStatus(step="AddVoter", reason="q-3-2 has caught up", blocked_by="a vote")
    return made


class Reader(HTMLParser):
    """Text by the class of its table; every tag and attribute that was met."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.cells: dict[str, list[str]] = {}
        self._kind, self.text = "", ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag == "table":
            self._kind = dict(attrs)["class"] or ""
        elif tag in ("td", "th"):
            self.cells.setdefault(self._kind, []).append("")

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._kind in self.cells:
            self.cells[self._kind][-1] += data


def read(*quorums: Shown, works: bool = True) -> Reader:
    return Reader(document(quorums, NOW, works=works))


@pytest.mark.requirement("OP-10")
def test_live_page_shows_members_leader_lag_plan_tolerance_moves_and_repairs() -> None:
    moves = (Move("2026-11-23T21:59:59Z", "CreateMember", "member 3 failed"),)
    shown = read(Shown("blue", "q", status(), moves))
    facts = shown.cells["facts"]
    assert "member 2, epoch 9" in facts
    assert "1 now, 1 after the next step" in facts
    assert any("AddVoter" in each and "blocked by: a vote" in each for each in facts)
    assert {"7", "NotReady"} <= set(shown.cells["members"])
    assert {"CreateMember", "member 3 failed"} <= set(shown.cells["moves"])
    assert "9 s" in shown.cells["repairs"]
    assert "blue/q Repairing" in shown.text


@pytest.mark.requirement("OP-10")
def test_live_page_is_one_document_without_scripts_and_with_escaped_values() -> None:
    made = status()
    made.members[0].condition = made.cluster_id = EVIL
    text = document([Shown("a", EVIL, made, (Move(EVIL, EVIL, EVIL),))], NOW, works=True)
    shown = Reader(text)
    assert shown.tags <= _OF_THIS_PAGE, "the page loads or runs code"
    assert shown.attributes <= {"lang", "charset", "http-equiv", "content", "class", "id"}
    assert "http:" not in text
    assert "//" not in text
    assert EVIL in shown.text


@pytest.mark.requirement("OP-10")
def test_live_page_has_a_bounded_size() -> None:
    made = status()
    made.members = [
        each.model_copy(update={"condition": "x" * 10_000}) for each in made.members * 50
    ]
    moves = tuple(Move("t", "s", "r" * 9000) for _ in range(500))
    text = document([Shown("a", f"q{n}", made, moves) for n in range(1000)], NOW, works=True)
    assert len(text) < MOST_QUORUMS * 20_000
    assert f"and {1000 - MOST_QUORUMS} more" in text
    kept = LastMoves()
    for number in range(100):
        kept.note(("a", "q"), Move("t", str(number), ""))
    assert [each.step for each in kept.of(("a", "q"))] == [
        str(n) for n in range(100 - MOST_MOVES, 100)
    ]
    kept.forget(("a", "q"))
    assert kept.of(("a", "q")) == ()


@pytest.mark.requirement("OP-10")
def test_operator_without_the_lease_shows_no_stale_state() -> None:
    shown = read(Shown("blue", "q", status()), works=False)
    assert "another one holds the lease" in shown.text
    assert "blue/q" not in shown.text


Ask = Callable[[int], list[httpx.Response]]


def served(place: PageAddress, ask: Ask) -> list[httpx.Response]:
    async def run() -> list[httpx.Response]:
        statuses = {("blue", "q"): status()}
        page = LivePage(place, lambda: statuses, LastMoves(), lambda: NOW, lambda: True)
        port = await page.start()
        try:
            return await asyncio.to_thread(ask, port)
        finally:
            await page.stop()

    return asyncio.run(run())


@pytest.mark.requirement("OP-10")
def test_loopback_page_is_read_only_and_accepts_only_loopback_host_names() -> None:
    def ask(port: int) -> list[httpx.Response]:
        url = f"http://127.0.0.1:{port}"
        with httpx.Client(trust_env=False) as client:
            return [
                client.get(url),
                client.get(url, headers={"Host": f"localhost:{port}"}),
                client.get(url, headers={"Host": f"evil.example:{port}"}),
                client.get(url, headers={"Host": "["}),
                client.post(url),
                client.get(f"{url}/other"),
            ]

    answers = served(PageAddress("127.0.0.1", 0), ask)
    assert [each.status_code for each in answers] == [200, 200, 403, 403, 405, 404]
    assert "blue/q" in answers[0].text
    assert "blue/q" not in answers[2].text
    policy = answers[0].headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert answers[0].headers["Cache-Control"] == "no-store"


@pytest.mark.requirement("OP-10")
def test_configured_token_is_required_and_can_be_rotated(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret\n")

    def ask(port: int) -> list[httpx.Response]:
        url = f"http://127.0.0.1:{port}"
        with httpx.Client(trust_env=False) as client:
            found = [
                client.get(url),
                client.get(url, auth=("me", "wrong")),
                client.get(url, headers={"Authorization": "Basic ???"}),
                client.get(url, headers={"Authorization": b"Bearer \xff"}),
                client.get(url, auth=("me", "secret")),
                client.get(url, headers={"Authorization": "Bearer secret"}),
            ]
            file.write_text("other")
            return [*found, client.get(url, auth=("me", "secret"))]

    answers = served(PageAddress("127.0.0.1", 0, str(file)), ask)
    assert [each.status_code for each in answers] == [401, 401, 401, 401, 200, 200, 401]
    assert answers[0].headers["WWW-Authenticate"].startswith("Basic")


@pytest.mark.requirement("OP-10")
def test_live_page_is_disabled_by_default_and_needs_a_token_on_other_addresses() -> None:
    assert from_environment({}).page is None
    page = "METADATAQUORUM_OPERATOR_PAGE"
    assert from_environment({page: "127.0.0.1:8081"}).page == PageAddress("127.0.0.1", 8081)
    assert from_environment({page: "[::1]:8081"}).page == PageAddress("::1", 8081)
    reported = from_environment({page: "0.0.0.0:1", f"{page}_TOKEN_FILE": "/t"}).page
    assert reported == PageAddress("0.0.0.0", 1, "/t")
    for wrong, words in (
        ("0.0.0.0:8081", "use kubectl port-forward"),
        ("8081", "is not host:port"),
    ):
        with pytest.raises(ValueError, match=words):
            from_environment({page: wrong})


def test_page_at_the_port_of_the_probes_is_refused() -> None:
    page, listen = "METADATAQUORUM_OPERATOR_PAGE", "METADATAQUORUM_OPERATOR_LISTEN"
    with pytest.raises(ValueError, match=f"{page}=127.0.0.1:8080: .*choose another one"):
        from_environment({page: "127.0.0.1:8080"})
    separate = from_environment({page: "127.0.0.1:8080", listen: "10.0.0.1:8080"}).page
    assert separate == PageAddress("127.0.0.1", 8080)
    assert from_environment({page: "127.0.0.1:0", listen: "127.0.0.1:0"}).page is not None


def test_start_reports_a_missing_or_empty_token_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    place = PageAddress("127.0.0.1", 0, str(file))
    with pytest.raises(ValueError, match=r"can't be read .*mount the Secret"):
        served(place, lambda port: [])
    file.write_text("\n")
    with pytest.raises(ValueError, match="is empty: write a token into it"):
        served(place, lambda port: [])


@pytest.mark.requirement("OP-10")
def test_live_page_lists_the_latest_reconcile_steps() -> None:
    api = running_quorum(3)
    made = reconciler(api, HealthyNodes(3))
    del api.objects[f"/api/v1/namespaces/{SPACE}/services/demo-admin"]
    repeat(made, 3)
    metrics = made._metrics
    assert "ApplyObjects" in [each.step for each in metrics.moves.of((SPACE, NAME))]
    assert metrics.statuses()[SPACE, NAME].voters == 3


@pytest.mark.long
def test_live_page_renders_in_a_browser(tmp_path: Path) -> None:
    """The policy lets the page's own style in; a picture of the page is not blank."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no chromium on PATH (Debian: apt-get install chromium)")
    browser = program

    def ask(port: int) -> list[httpx.Response]:
        quiet = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-proxy-server"]
        home = f"--user-data-dir={tmp_path / 'profile'}"
        command = [browser, *quiet, home, "--virtual-time-budget=1000"]
        url = f"http://localhost:{port}/"
        seen = subprocess.run(
            [*command, "--dump-dom", url], capture_output=True, text=True, timeout=120, check=True
        )
        shown = Reader(seen.stdout)
        assert "member 2, epoch 9" in shown.cells["facts"]
        assert "Content Security Policy" not in seen.stderr
        picture = tmp_path / "page.png"
        shot = [*command, f"--screenshot={picture}", "--window-size=1000,800", url]
        subprocess.run(shot, capture_output=True, timeout=120, check=True)
        assert picture.stat().st_size > 5_000
        return []

    served(PageAddress("127.0.0.1", 0), ask)
