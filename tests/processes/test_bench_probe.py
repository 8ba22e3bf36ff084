"""The benchmark's prober against a server that answers at once: a long result arrives whole."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

from contender import Probe, kafka_probe, python  # noqa: E402

PIPE_BYTES = 65536
LONGEST_SECONDS = 30.0


@pytest.mark.requirement("K595-32")
def test_result_larger_than_the_pipe_buffer_is_complete(tmp_path: Path) -> None:
    """Longer runs until the result is that long, independent of other load on the machine."""
    output, seconds = tmp_path / "commits.json", 1.0
    with subprocess.Popen(python("null_server.py"), stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = ("127.0.0.1", int(server.stdout.readline()))
        while True:
            commits = Probe(kafka_probe([address], seconds, output), output).commits()
            assert commits == sorted(commits)
            assert len(set(commits)) > 1
            if output.stat().st_size > PIPE_BYTES or seconds > LONGEST_SECONDS:
                break
            seconds *= 2
        server.terminate()
    assert output.stat().st_size > PIPE_BYTES
