"""The node of an earlier commit, to run beside the present one in a rolling upgrade.

Its source comes from the repository's own history. `UPGRADE_FROM` names another commit than `PREVIOUS_COMMIT`.
"""

import os
import subprocess
import sys
from pathlib import Path

PREVIOUS_COMMIT = "51b52fbf"
"""The last commit of the version before; raised whenever a version is finished."""

_REPOSITORY = Path(__file__).parents[2]


class NoHistory(Exception):
    """The checkout does not hold the commit, as a shallow clone or an unpacked archive does not."""


def previous_node(destination: Path) -> tuple[str, ...]:
    """What the command line of a node begins with, so that it runs the earlier commit's code.

    `destination`: a new directory that takes the source. Raises NoHistory.
    """
    commit = os.environ.get("UPGRADE_FROM", PREVIOUS_COMMIT)
    archive = subprocess.run(
        ["git", "archive", "--format=tar", commit, "node"],
        cwd=_REPOSITORY,
        capture_output=True,
        check=False,
    )
    if archive.returncode != 0:
        said = f"git archive {commit}: {archive.stderr.decode().strip()}"
        assert not _has_history(), said
        raise NoHistory(said)
    destination.mkdir(parents=True)
    subprocess.run(["tar", "-x"], cwd=destination, input=archive.stdout, check=True)
    # What stands first on the import path goes before the installed package.
    path = os.pathsep.join([str(destination / "node"), *(entry for entry in sys.path if entry)])
    return ("env", f"PYTHONPATH={path}")


def _has_history() -> bool:
    asked = ["git", "rev-parse", "--is-shallow-repository"]
    answer = subprocess.run(asked, cwd=_REPOSITORY, capture_output=True, text=True, check=False)
    return answer.stdout.strip() == "false"
