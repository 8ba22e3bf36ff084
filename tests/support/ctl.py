"""quorumctl as people run it, on the nodes of a local quorum."""

import os
import subprocess
import sys

from support.local_quorum import LocalQuorum


class Ctl:
    """Runs quorumctl with the quorum's URLs and token in the environment."""

    def __init__(self, quorum: LocalQuorum) -> None:
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
            "QUORUMCTL_ADMIN": ",".join(n.admin_url for n in quorum.nodes.values()),
            "QUORUMCTL_TOKEN_FILE": str(quorum.root / "token"),
        }

    def run(self, *arguments: str, code: int = 0, **environment: str) -> str:
        """stdout of a run that succeeds, stderr of one that is to fail."""
        done = subprocess.run(
            [sys.executable, "-m", "quorum_node.quorumctl.main", *arguments],
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stderr if code else done.stdout
