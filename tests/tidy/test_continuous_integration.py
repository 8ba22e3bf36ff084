"""What CI runs: all of `make test`, and that includes the tests on kind."""

import os
import subprocess

import pytest

from support.source_tree import ROOT

FROM_MAKE = frozenset({"MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "ARGS"})


def commands_of(target: str) -> list[str]:
    """What make would run for it, recursively, whatever the make that runs this test was given."""
    done = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", target, "ARGS="],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name not in FROM_MAKE},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.mark.requirement("OP-09")
def test_ci_runs_the_tests_on_kind_with_real_disk_failures() -> None:
    script = (ROOT / ".ci" / "run").read_text().splitlines()
    ran = [line for line in script if line.startswith("timeout ") and " make test " in f"{line} "]
    assert ran, "the script of CI does not run `make test`"
    tests = [line for line in commands_of("test") if " -m pytest " in line]
    assert len(tests) == 1
    assert tests[0].endswith('-m "not long" --continue-on-collection-errors tests ')
    disks = (ROOT / "tests" / "e2e" / "test_e2e_disks.py").read_text()
    before, _, _ = disks.partition("def test_failed_disk_of_a_follower_is_replaced_automatically")
    assert "long" not in before.rsplit("\n\n", 1)[-1], "it belongs to the short set"
