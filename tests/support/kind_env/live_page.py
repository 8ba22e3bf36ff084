"""The operator's live page as a user opens it: enabled in the chart, forwarded by kubectl, shown by a browser if there is one."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path

import httpx

from support.kind_env import installation
from support.kind_env.installation import OPERATOR_NAMESPACE, RELEASE
from support.kind_env.operator_cluster import OperatorCluster
from support.kind_env.testbed import run

PAGE_PORT = 8081
_BROWSERS = ("chromium", "google-chrome")
_QUIET = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-proxy-server")


class Tables(HTMLParser):
    """Rows of the page's tables, by the class of the table, as texts of their cells."""

    def __init__(self, section: str) -> None:
        super().__init__()
        self.rows: dict[str, list[list[str]]] = {}
        self._kind = ""
        self.feed(section)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self._kind = dict(attrs)["class"] or ""
        elif tag == "tr":
            self.rows.setdefault(self._kind, []).append([])
        elif tag in ("td", "th"):
            self.rows[self._kind][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "table":
            self._kind = ""

    def handle_data(self, data: str) -> None:
        if self._kind and self.rows[self._kind][-1]:
            self.rows[self._kind][-1][-1] += data


class LivePage:
    """`folder`: where pictures are written."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder

    def section(self, namespace: str, name: str) -> Tables:
        """What the page shows of one quorum. Raises httpx.HTTPError and LookupError."""
        answer = httpx.get(self._url, timeout=10, trust_env=False).raise_for_status().text
        found = re.search(rf'<section id="{namespace}/{name}">(.*?)</section>', answer, re.DOTALL)
        if found is None:
            raise LookupError(f"no section {namespace}/{name} on the page")
        return Tables(found[1])

    def screenshot(self, name: str) -> Path | None:
        """A picture of the page as a browser shows it, or None without a browser."""
        browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
        if browser is None:
            return None
        self._folder.mkdir(parents=True, exist_ok=True)
        picture = self._folder / f"{name}.png"
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            command = [browser, *_QUIET, f"--user-data-dir={profile}", "--window-size=1100,620"]
            command += ["--virtual-time-budget=1000", f"--screenshot={picture}", self._url]
            run(command, timeout_s=120)
        return picture


@contextmanager
def served(cluster: OperatorCluster, folder: Path) -> Iterator[LivePage]:
    """The page of the active operator, as docs/how-to/live-page.md enables it; disabled afterwards."""
    _enable(cluster, "true")
    try:
        with _forwarded(cluster) as url:
            yield LivePage(url, folder)
    finally:
        _enable(cluster, "false")


def _enable(cluster: OperatorCluster, value: str) -> None:
    command = [*installation.helm_command(cluster.kubeconfig), "upgrade", RELEASE]
    command += [str(installation.CHART), "--namespace", OPERATOR_NAMESPACE, "--reuse-values"]
    command += ["--set", f"page.enabled={value}", "--wait", "--timeout", "180s"]
    run(command, timeout_s=240)


@contextmanager
def _forwarded(cluster: OperatorCluster) -> Iterator[str]:
    command = [*installation.kubectl_command(cluster.kubeconfig), "-n", OPERATOR_NAMESPACE]
    command += ["port-forward", f"deployment/{RELEASE}", f":{PAGE_PORT}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"127\.0\.0\.1:(\d+)", line)
        assert found is not None, f"kubectl port-forward: {line!r}"
        yield f"http://localhost:{found[1]}/"
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()  # type: ignore[union-attr]
