"""Runs of pytest on another repository, each in a fork of a process that has imported pytest already.

A new interpreter for every run would take most of the time. The forked process is separate from the tests' own: it has one thread and no
state of a run.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.source_tree import ROOT

# Of the installed plugins only the one for parallel runs is loaded.
ALWAYS = ("-q", "-p", "no:cacheprovider", "-p", "xdist")


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    output: str


class PytestRuns:
    def __init__(self, process: "subprocess.Popen[str]", output: Path) -> None:
        self._process, self._output = process, output

    def run(self, root: Path, *arguments: str, **environment: str) -> Ran:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {
            "root": str(root),
            "arguments": [*ALWAYS, *arguments],
            "environment": environment,
            "output": str(self._output),
        }
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        return Ran(code, self._output.read_text())


@contextmanager
def pytest_runs(output: Path) -> Iterator[PytestRuns]:
    """The output of a run goes to the file `output`, which each run overwrites."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environment = {
        **outside,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": str(ROOT / "tests"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "support.pytest_runs"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield PytestRuns(process, output)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(timeout=30)
        assert process.stdout is not None
        process.stdout.close()


def _serve() -> None:
    import pytest
    import xdist.plugin  # noqa: F401

    import support.requirement_plugin  # noqa: F401

    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            code = 70
            try:
                target = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
                os.dup2(target, 1)
                os.dup2(target, 2)
                os.chdir(request["root"])
                os.environ.update(request["environment"])
                code = int(pytest.main(request["arguments"]))
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    _serve()
