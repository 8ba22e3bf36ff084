"""The operator's live page as a user opens it: enabled in the chart, forwarded by kubectl, read by an HTTP client or shown by a browser."""

import re
import shutil
import struct
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
PICTURE_SIZE = (1100, 800)
"""Width and height in pixels."""
_LEAST_PICTURE_BYTES = 10_000
"""An empty page of this size has about 4,000."""
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


class Browser:
    """A headless browser that opens one address. `program`: Chromium or Chrome."""

    def __init__(self, program: str) -> None:
        self._program = program

    def dom(self, url: str) -> str:
        """The document after it was loaded and laid out, as HTML."""
        return self._run("--dump-dom", url)

    def picture(self, url: str, path: Path) -> None:
        """Writes what a user sees, as PNG."""
        self._run(f"--screenshot={path}", url)

    def _run(self, *arguments: str) -> str:
        width, height = PICTURE_SIZE
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            command = [self._program, *_QUIET, f"--user-data-dir={profile}"]
            command += [f"--window-size={width},{height}", "--virtual-time-budget=1000"]
            return run([*command, *arguments], timeout_s=120).stdout


def installed_browser() -> Browser | None:
    """The one on PATH."""
    program = next(filter(None, map(shutil.which, _BROWSERS)), None)
    return None if program is None else Browser(program)


def size_of(picture: Path) -> tuple[int, int]:
    """Width and height of a PNG, from its header."""
    header = picture.read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n", picture
    width, height = struct.unpack(">II", header[16:24])
    return width, height


class LivePage:
    """`browser`: reads the page; None: a plain HTTP client does. `folder`: where pictures are written."""

    def __init__(self, url: str, browser: Browser | None, folder: Path) -> None:
        self._url = url
        self._browser = browser
        self._folder = folder

    def section(self, namespace: str, name: str) -> Tables:
        """What the page shows of one quorum. Raises httpx.HTTPError and LookupError."""
        if self._browser is None:
            answer = httpx.get(self._url, timeout=10, trust_env=False).raise_for_status().text
        else:
            answer = self._browser.dom(self._url)
        found = re.search(rf'<section id="{namespace}/{name}">(.*?)</section>', answer, re.DOTALL)
        if found is None:
            raise LookupError(f"no section {namespace}/{name} on the page")
        return Tables(found[1])

    def photograph(self, name: str, section: str) -> None:
        """Keeps a picture of the page from this section on, if a browser shows it."""
        if self._browser is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        picture = self._folder / f"{name}.png"
        picture.unlink(missing_ok=True)
        self._browser.picture(f"{self._url}#{section}", picture)
        assert size_of(picture) == PICTURE_SIZE
        assert picture.stat().st_size > _LEAST_PICTURE_BYTES, "nothing is drawn"


@contextmanager
def served(cluster: OperatorCluster, browser: Browser | None, folder: Path) -> Iterator[LivePage]:
    """The page of the active operator, as docs/how-to/live-page.md enables it; disabled afterwards."""
    _enable(cluster, "true")
    try:
        with forwarded(cluster) as url:
            yield LivePage(url, browser, folder)
    finally:
        _enable(cluster, "false")


def _enable(cluster: OperatorCluster, value: str) -> None:
    command = [*installation.helm_command(cluster.kubeconfig), "upgrade", RELEASE]
    command += [str(installation.CHART), "--namespace", OPERATOR_NAMESPACE, "--reuse-values"]
    command += ["--set", f"page.enabled={value}", "--wait", "--timeout", "180s"]
    run(command, timeout_s=240)


@contextmanager
def forwarded(cluster: OperatorCluster) -> Iterator[str]:
    """Address of the page's port in the operator's pod, whether it is served or not."""
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
