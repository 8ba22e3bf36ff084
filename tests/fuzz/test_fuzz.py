"""Every RPC decoder, the log and the snapshot readers against bytes that a fuzzer makes up.

No crash, no hang, no more than 64 MiB for an input: seconds here, ten minutes each in the long set
(FUZZ_SECONDS changes that). The seeds are the valid messages of the codec tests. See `support/fuzz`.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.fuzz import seeds
from support.fuzz.targets import ANY, SERVED, TARGETS

LONG_SECONDS = int(os.environ.get("FUZZ_SECONDS", "600"))
SHORT_SECONDS = 4
START_SECONDS = 120
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


class Run:
    """One target, fuzzed in a process of its own."""

    def __init__(self, target: str, seconds: int, directory: Path) -> None:
        self.target, self.seconds, self.directory = target, seconds, directory
        (directory / "corpus").mkdir(parents=True)
        self.seeds = seeds.write(target, directory / "corpus")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "support.fuzz.runner", target, str(seconds), str(directory)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT,
        )  # fmt: skip

    def tried(self) -> int:
        """How many inputs it was given. Fails with what was found."""
        try:
            output, _ = self.process.communicate(timeout=self.seconds + START_SECONDS)
        finally:
            self.process.kill()
        found = [path.read_bytes()[:200] for path in self.directory.glob("found-*")]
        assert (self.process.returncode, found) == (0, []), f"{self.target}\n{output[-4000:]}"
        number = re.search(r"number_of_executed_units: +(\d+)", output)
        assert number is not None, output[-4000:]
        assert int(number[1]) >= self.seeds, "fewer runs than seeds"
        return int(number[1])


@pytest.mark.slow
def test_each_fuzz_target_runs_for_a_few_seconds(tmp_path: Path) -> None:
    """In one process: what a fuzzer does before it begins takes longer than these seconds."""
    Run(ANY, SHORT_SECONDS, tmp_path).tried()


@pytest.mark.long
@pytest.mark.timeout(LONG_SECONDS + 2 * START_SECONDS)
@pytest.mark.parametrize("target", TARGETS)
def test_each_fuzz_target_runs_for_ten_minutes(target: str, tmp_path: Path) -> None:
    tried = Run(target, LONG_SECONDS, tmp_path / target).tried()
    print(f"{target}: {tried} inputs in {LONG_SECONDS} s")


def test_every_decoder_has_a_fuzz_target_and_seeds() -> None:
    for target in ("requests", "responses"):
        chosen = {int.from_bytes(data[:2], "big") for data in seeds.of(target)}
        assert chosen == set(range(len(SERVED)))


@pytest.mark.parametrize("target", TARGETS)
def test_fuzz_seeds_are_valid(target: str) -> None:
    for data in seeds.of(target):
        TARGETS[target](data)


@pytest.mark.parametrize(
    ("broken", "sign"),
    [
        ("raise KeyError('a bug')", "KeyError"),
        ("hog = b'x' * (80 << 20)", "took"),
    ],
)
def test_fuzzer_finds_an_inserted_defect(broken: str, sign: str, tmp_path: Path) -> None:
    """A decoder that crashes, or takes much memory, on an input that is none of the seeds."""
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    (corpus / "seed").write_bytes(b"AAAA")
    program = f"""
import sys
sys.argv = ["runner", "log", "20", {str(tmp_path)!r}]
from support.fuzz import targets, runner
tried = 0
def bad(data):
    global tried
    tried += 1
    if tried > 2 * runner.WARM_UP_INPUTS and data[:4] != b"AAAA":
        {broken}
targets.RUNNABLE["log"] = bad
runner.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, env=ENVIRONMENT, timeout=20 + START_SECONDS,
    )  # fmt: skip
    assert done.returncode != 0
    assert sign in done.stdout + done.stderr
    assert list(tmp_path.glob("found-*")), "the input is kept"
