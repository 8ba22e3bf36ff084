"""Runs quorumctl on the nodes of a local quorum, as a user would."""

import contextlib
import io
import os
import subprocess
import sys
from unittest.mock import patch

from quorum_node.quorumctl.main import main
from support.local_quorum import LocalQuorum


class Ctl:
    """Runs quorumctl with the quorum's URLs and token in the environment.

    It runs in this process, because loading it again takes longer than most commands; `run_program` starts the real program.
    """

    def __init__(self, quorum: LocalQuorum) -> None:
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
            "QUORUMCTL_ADMIN": ",".join(n.admin_url for n in quorum.nodes.values()),
            "QUORUMCTL_TOKEN_FILE": str(quorum.root / "token"),
        }

    def run(self, *arguments: str, code: int = 0, **environment: str) -> str:
        """stdout of a run that is expected to succeed, stderr of one that is expected to fail."""
        out, err = io.StringIO(), io.StringIO()
        with (
            patch.dict(os.environ, {**self.environment, **environment}),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                returned = main(list(arguments))
            except SystemExit as ended:  # argparse exits this way
                returned = ended.code if isinstance(ended.code, int) else 1
        assert returned == code, out.getvalue() + err.getvalue()
        return err.getvalue() if code else out.getvalue()

    def run_program(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The program in a process of its own."""
        return subprocess.run(
            [sys.executable, "-m", "quorum_node.quorumctl.main", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
