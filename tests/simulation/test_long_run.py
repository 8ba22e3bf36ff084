"""A long run continues where the last one ended: passed seeds are stored at once, and no others."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from quorum_node.broker import isr_changes
from quorum_simulation.broker.run import BROKERS
from quorum_simulation.broker.run import markdown as brokers_markdown
from quorum_simulation.broker.run import run_seed as play_brokers
from quorum_simulation.ledger import QUORUMS, Kept, Ledger
from quorum_simulation.long_run import LongRun
from quorum_simulation.run import Failure, Report
from quorum_simulation.sources import Sources, digest_of, present_sources
from quorum_simulation.story import Outcome
from quorum_simulation.summary import BEGIN, END, markdown
from support.interruptible import interruptible

SEEDS = range(101, 105)
SOURCES = Sources("0123", "abc", "3.11.2", ())
_PLAY_AND_TELL = """
import sys
from importlib import import_module
runner = import_module(sys.argv[1])
play = getattr(runner, "run_seed", None) or runner.play
for seed in (1, 4):
    play(seed)
own = ("quorum_node", "quorum_simulation")
print("\\n".join(name for name in sys.modules if name.partition(".")[0] in own))
"""


def _outcome(seed: int) -> Outcome:
    outcome = Outcome(seed, initial_voters=3, writes=300, faults=11, simulated_ms=7_200_000.0)
    outcome.struck = Counter({("EIO", "steady"): 2, ("crash", "electing"): seed})
    outcome.reads = Counter(leader=5, observer=1)
    outcome.cpu_s = 36.0
    return outcome


def test_passed_histories_are_kept_for_the_next_run_and_failed_ones_repeated(
    tmp_path: Path,
) -> None:
    first = LongRun(SEEDS, SOURCES, tmp_path, QUORUMS)
    first.played(_outcome(101))
    failure = Failure(102, "Violation: something", [])
    first.played(failure)
    first.played(_outcome(104))
    # Nothing was closed: a run that is killed has kept as much.
    second = LongRun(SEEDS, SOURCES, tmp_path, QUORUMS)
    assert second.left == [102, 103]
    assert second.finished == first.finished == [_outcome(101), _outcome(104)]
    second.played(_outcome(103))
    assert LongRun(SEEDS, SOURCES, tmp_path, QUORUMS).left == [102]
    text = markdown(first.summed_up(Report(failures=[failure])))
    assert "2 of 4 histories, seeds 101 to 104, failed: 102: 209 faults" in text


def test_fresh_run_neither_reads_nor_writes_earlier_results(tmp_path: Path) -> None:
    LongRun(SEEDS, SOURCES, tmp_path, QUORUMS).played(_outcome(101))
    afresh = LongRun(SEEDS, SOURCES, None, QUORUMS)
    assert afresh.left == list(SEEDS)
    afresh.played(_outcome(102))
    assert LongRun(SEEDS, SOURCES, tmp_path, QUORUMS).left == [102, 103, 104]


def test_unwritable_directory_does_not_stop_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    run = LongRun(SEEDS, SOURCES, tmp_path / "file" / "simulation", QUORUMS)
    run.played(_outcome(101))
    assert run.finished == [_outcome(101)]
    assert "not kept" in capsys.readouterr().err


def test_history_of_brokers_is_kept_whole(tmp_path: Path) -> None:
    seeds = range(1, 3)
    first = LongRun(seeds, SOURCES, tmp_path, BROKERS)
    outcome = play_brokers(1)
    assert not isinstance(outcome, Failure)
    first.played(outcome)
    second = LongRun(seeds, SOURCES, tmp_path, BROKERS)
    assert second.left == [2]
    assert second.finished == [outcome]
    text = brokers_markdown(second.summed_up(Report()))
    assert "1 of 2 histories, seeds 1 to 2, none failed: " in text
    assert f"| power cut | 1 | {outcome.struck['power cut']} |" in text


def test_failed_history_of_brokers_tells_what_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isr_changes, "_may_join", lambda leader, replica_id, progress: False)
    failure = play_brokers(1)
    assert isinstance(failure, Failure)
    assert failure.problem.startswith("Violation: ")
    assert any("kill" in line for line in failure.history)
    assert str(failure).endswith("replay: python -m quorum_simulation.broker --seed 1")


def test_torn_line_loses_one_history(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, "digest", QUORUMS)
    for seed in SEEDS:
        ledger.keep(Kept(_outcome(seed), "2026-01-02", "abc"))
    ledger.close()
    whole = ledger.file.read_bytes()
    ledger.file.write_bytes(whole[:-40])
    again = Ledger(tmp_path, "digest", QUORUMS)
    assert sorted(again.kept) == list(SEEDS)[:-1]
    again.keep(Kept(_outcome(SEEDS[-1]), "2026-01-03", "def"))
    assert sorted(Ledger(tmp_path, "digest", QUORUMS).kept) == list(SEEDS)
    assert not Ledger(tmp_path, "another", QUORUMS).kept


def test_dates_and_commits_of_all_runs_are_reported(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, SOURCES.digest, QUORUMS)
    ledger.keep(Kept(_outcome(101), "2026-01-02", "abc"))
    ledger.keep(Kept(_outcome(102), "2026-01-09", "def+"))
    ledger.close()
    run = LongRun(range(101, 103), SOURCES, tmp_path, QUORUMS)
    text = markdown(run.summed_up(Report()))
    assert text.startswith(
        "2026-01-02 to 2026-01-09, commit abc, def+, sources 0123, Python 3.11.2: "
    )
    assert "2 histories, seeds 101 to 102, none failed: " in text
    assert "4.0 simulated hours took 0.02 hours" in text
    assert "| EIO | 2 | 4 |" in text


def test_digest_depends_on_contents_names_and_versions(tmp_path: Path) -> None:
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_text("x = 1\n")
    other.write_text("x = 1\n")
    digest = digest_of({"a": one}, {"crc32c": "2.7"})
    assert digest == digest_of({"a": other}, {"crc32c": "2.7"})
    assert digest != digest_of({"b": one}, {"crc32c": "2.7"})
    assert digest != digest_of({"a": one}, {"crc32c": "2.8"})
    other.write_text("x = 2\n")
    assert digest != digest_of({"a": other}, {"crc32c": "2.7"})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("runner", "entry", "beside"),
    [
        ("quorum_simulation.run", "quorum_simulation.story", {"quorum_simulation.run"}),
        ("quorum_simulation.broker.world", "quorum_simulation.broker.world", set()),
    ],
)
def test_digest_covers_every_module_that_affects_a_history(
    runner: str, entry: str, beside: set[str]
) -> None:
    """Not one that is imported only while a history is played; and nothing of what only keeps and counts."""
    command = [sys.executable, "-c", _PLAY_AND_TELL, runner]
    played = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert set(played) - beside == set(present_sources(entry).modules)


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)]
)
def test_interrupted_run_loses_no_result(tmp_path: Path, number: signal.Signals) -> None:
    """A terminal interrupts the workers as well, `kill` the parent alone."""
    document = tmp_path / "document.md"
    document.write_text(BEGIN + "nothing yet\n" + END)
    play = [sys.executable, "-m", "quorum_simulation", "--write", str(document), "--seeds"]
    command = [*play, "1..1000", "--jobs", "2"]
    environment = {**os.environ, "METADATAQUORUM_CACHE": str(tmp_path / "cache")}
    with interruptible():
        process = subprocess.Popen(
            command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
    directory = tmp_path / "cache" / "simulation"
    try:
        while not any(file.stat().st_size for file in directory.glob("*.jsonl")):
            assert process.poll() is None
            time.sleep(0.05)
    finally:
        if number is signal.SIGINT:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        _, complaints = process.communicate(timeout=280)
    assert process.returncode == 130
    assert "Traceback" not in complaints
    (file,) = directory.glob("*.jsonl")
    finished = file.read_text().splitlines()
    seeds = [json.loads(line)["outcome"]["seed"] for line in finished]
    assert len(seeds) == len(set(seeds)) > 0
    of = f"{len(seeds)} of 1,000 histories, seeds 1 to 1,000, none failed: "
    assert of in document.read_text()
    output = subprocess.check_output([*play, str(seeds[0])], env=environment, text=True)
    assert output.startswith(f"1 of 1 histories are in {file}\n")
    assert file.read_text().splitlines() == finished
