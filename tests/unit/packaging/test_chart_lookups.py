"""What the chart looks up in the cluster: helm does so with the rights of the person who runs it."""

import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from support import chart


class _Forbidden(BaseHTTPRequestHandler):
    """Answers as an API server does to a person without any right."""

    def do_GET(self) -> None:
        self.send_response(403)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    """URL of an API server that refuses everything."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Forbidden) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{made.server_port}"
        made.shutdown()
        thread.join()


@pytest.mark.parametrize("creates", ["true", "false"])
def test_upgrade_reads_objects_without_a_namespace_only_if_it_creates_some(
    helm: Path, server: str, creates: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELM_KUBEAPISERVER", server)
    monkeypatch.setenv("KUBECONFIG", os.devnull)
    command = ["template", chart.RELEASE, str(chart.CHART), "--namespace", chart.NAMESPACE]
    command += ["--kube-version", chart.KUBE_VERSION, "--is-upgrade", "--dry-run=server"]
    command += ["--api-versions", "metadataquorum.dev/v1alpha1"]
    done = chart.run_helm(helm, *command, "--set", f"rbac.create={creates}")
    assert (done.returncode == 0) == (creates == "false"), done.stderr
    assert ("error calling lookup" in done.stderr) == (creates == "true")
