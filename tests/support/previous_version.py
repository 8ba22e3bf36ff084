"""The node and the operator of earlier commits, to run beside the present ones, or before them, in a rolling upgrade.

Their source comes from the repository's own history. `UPGRADE_FROM` names another commit than `PREVIOUS_COMMIT`, and
`UPGRADE_OPERATOR_FROM` another one than `PREVIOUS_OPERATOR`.
"""

import os
import subprocess
import sys
from pathlib import Path

PREVIOUS_COMMIT = "51b52fbf"
"""The last commit of the version before; raised whenever a version is finished."""

PREVIOUS_OPERATOR = "9c7399c6"
"""The last commit whose operator wrote no marks on claims and had no Lease."""

OPERATOR_OF_ONE_VERSION = "e637281e"
"""The last commit whose definitions had v1alpha1 alone. Its operator can take over from this one."""

_REPOSITORY = Path(__file__).parents[2]


class NoHistory(Exception):
    """The checkout does not hold the commit, as a shallow clone or an unpacked archive does not."""


def previous_node(destination: Path) -> tuple[str, ...]:
    """The prefix of a node's command line that makes it run the earlier commit's code.

    `destination`: a new directory for the source. Raises NoHistory.
    """
    commit = os.environ.get("UPGRADE_FROM", PREVIOUS_COMMIT)
    return ("env", f"PYTHONPATH={_import_path(commit, destination, 'node')}")


def previous_operator(destination: Path, commit: str = PREVIOUS_OPERATOR) -> dict[str, str]:
    """The environment that makes the operator's process run the code of `commit`, or of the one in UPGRADE_OPERATOR_FROM.

    `destination`: a new directory for the source. Raises NoHistory.
    """
    commit = os.environ.get("UPGRADE_OPERATOR_FROM", commit)
    return {"PYTHONPATH": _import_path(commit, destination, "operator", "node")}


def _import_path(commit: str, destination: Path, *folders: str) -> str:
    archive = subprocess.run(
        ["git", "archive", "--format=tar", commit, *folders],
        cwd=_REPOSITORY,
        capture_output=True,
        check=False,
    )
    if archive.returncode != 0:
        output = f"git archive {commit}: {archive.stderr.decode().strip()}"
        assert not _has_history(), output
        raise NoHistory(output)
    destination.mkdir(parents=True)
    subprocess.run(["tar", "-x"], cwd=destination, input=archive.stdout, check=True)
    # Earlier entries of the import path take precedence over the installed package.
    first = [str(destination / each) for each in folders]
    return os.pathsep.join([*first, *(entry for entry in sys.path if entry)])


def _has_history() -> bool:
    command = ["git", "rev-parse", "--is-shallow-repository"]
    answer = subprocess.run(command, cwd=_REPOSITORY, capture_output=True, text=True, check=False)
    return answer.stdout.strip() == "false"
