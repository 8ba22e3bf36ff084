"""Which page of docs/reference is made by which module. A test compares the files with what these make."""

from collections.abc import Callable
from pathlib import Path

from docs._site.pages import commands, exit_codes, http_api, resources, wire

REFERENCE = Path(__file__).resolve().parents[2] / "reference"

PAGES: dict[str, Callable[[], str]] = {
    "resources.md": resources.markdown,
    "http-api.md": http_api.markdown,
    "http-api.json": http_api.document,
    "quorum-node.md": commands.quorum_node,
    "quorumctl.md": commands.quorumctl,
    "quorum-backup.md": commands.quorum_backup,
    "quorum-pipeline.md": commands.quorum_pipeline,
    "kubectl-quorum.md": commands.kubectl_quorum,
    "exit-codes.md": exit_codes.markdown,
    "wire.md": wire.markdown,
}
