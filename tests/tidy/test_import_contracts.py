"""Every import contract of pyproject.toml can fail: one forbidden import each, in a copy of the packages."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from support.source_tree import PACKAGES, ROOT

# Contract → (module that gets the line, the line). An import is enough; nothing is run.
BREAKS = {
    "In the node, imports go one way: from the process down to the codecs": (
        "node/quorum_node/records/batches.py",
        "import quorum_node.storage.log",
    ),
    "Nothing that is installed knows the simulation": (
        "node/quorum_node/server/version.py",
        "import quorum_simulation.story",
    ),
    "The Raft core uses its own messages, not wire structs": (
        "node/quorum_node/raft/vote.py",
        "import quorum_node.protocol.fetch",
    ),
    "The core of the data path uses its own events, not wire structs": (
        "node/quorum_node/broker/leader.py",
        "import quorum_node.protocol.fetch",
    ),
    "The core of the group coordinator uses its own requests, not wire structs": (
        "node/quorum_node/coordinator/shard.py",
        "import quorum_node.protocol.join_group",
    ),
    "quorumctl knows a node by its admin API only": (
        "node/quorum_node/quorumctl/watch.py",
        "import quorum_node.raft.vote",
    ),
    "The admin client knows a node by Kafka's protocol only": (
        "node/quorum_node/client/errors.py",
        "import quorum_node.api",
    ),
    "The admin API's models do not import the node": (
        "node/quorum_node/api.py",
        "import quorum_node.raft.vote",
    ),
    "The operator knows a node by its admin API only": (
        "operator/quorum_operator/crd.py",
        "import quorum_node.storage.log",
    ),
    "The kubectl plugin needs kubectl and Python, and no other package": (
        "operator/quorum_operator/plugin/layout.py",
        "import pydantic",
    ),
    "In the operator, modules that decide do not import modules that act": (
        "operator/quorum_operator/planner/gates.py",
        "import quorum_operator.reconcile",
    ),
    "In the pipeline, imports go one way: Spark and commands are shells around files, and files around what is pure": (
        "pipeline/quorum_pipeline/rows/__init__.py",
        "import quorum_pipeline.files",
    ),
    "The pipeline shares the node's codecs and its image, and nothing that runs": (
        "pipeline/quorum_pipeline/rows/__init__.py",
        "import quorum_node.raft.vote",
    ),
    "Only the shell of the pipeline knows Spark": (
        "pipeline/quorum_pipeline/rows/__init__.py",
        "import pyspark",
    ),
    "What decides touches no clock, no random source, no file and no socket": (
        "node/quorum_node/image/ordering.py",
        "import time",
    ),
}


def test_every_contract_can_fail(tmp_path: Path) -> None:
    """All breaks at once: the tool judges each contract by itself, and reads the packages only once."""
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    names = {contract["name"] for contract in configuration["contracts"]}
    assert names == BREAKS.keys()
    for package in PACKAGES:
        skip = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=skip)
    for module, line in BREAKS.values():
        with (tmp_path / module).open("a") as file:
            file.write(f"\n{line}\n")
    found = _judged(tmp_path)
    assert found == dict.fromkeys(names, "BROKEN")


def _judged(copy: Path) -> dict[str, str]:
    """Contract → what lint-imports says of it, KEPT or BROKEN, for the packages in `copy`."""
    folders = {str((copy / package).parent) for package in PACKAGES}
    done = subprocess.run(
        [
            Path(sys.executable).parent / "lint-imports",
            "--no-cache",
            "--config",
            ROOT / "pyproject.toml",
        ],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders), "COLUMNS": "300"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return dict(re.findall(r"^(.+?) (KEPT|BROKEN)", done.stdout, re.MULTILINE))
