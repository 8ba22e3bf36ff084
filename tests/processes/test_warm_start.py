"""Nodes of the tests are forks of a process that has loaded their code and compiled their codecs."""

from pathlib import Path

from support import warm_process
from support.warm_process import WarmProcess, WarmStart

_STATEMENT = """
import sys
from quorum_node.protocol.apis import FETCH, VOTE
from quorum_node.schema import decoder, encoder
for name in ("broker_process", "combined_process", "main"):
    print(name, f"quorum_node.server.process.{name}" in sys.modules)
for api in (FETCH, VOTE):
    written = {(cls, version) for cls, version, _ in encoder._COMPILED}
    read = {(cls, version) for cls, version, *_ in decoder._COMPILED}
    print(api.request.__name__, (api.request, api.max_version) in written & read)
"""


def test_fork_begins_with_the_code_of_the_node_loaded_and_its_codecs_compiled(
    tmp_path: Path,
) -> None:
    """Python leaves out, without an error, a module that it can't find when it prepares forks."""
    warm_process.load()
    log = tmp_path / "log"
    # This module of the standard library runs a statement.
    process = WarmProcess(WarmStart("timeit", ["-n", "1", "-r", "1", _STATEMENT], log))
    assert process.wait(60) == 0, log.read_text()
    shown = dict(line.split() for line in log.read_text().splitlines()[:5])
    assert len(shown) == 5
    assert set(shown.values()) == {"True"}, shown
