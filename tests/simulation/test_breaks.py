"""The simulation bites: each way of breaking the code is caught (breaks.py, snapshot_breaks.py)."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from quorum_node.simulation.run import Failure, run_seed
from support.raft.transcript import Transcript

SCENARIOS = Path(__file__).parents[1] / "scenarios"
SEEDS = range(1, 41)


def _load(name: str) -> ModuleType:
    """A module that lies beside this file; test folders are no packages."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


breaks, snapshot_breaks = _load("breaks"), _load("snapshot_breaks")
BY_SIMULATION = (*breaks.BY_SIMULATION, *snapshot_breaks.BY_SIMULATION)
BY_SCENARIO = (*breaks.BY_SCENARIO, *snapshot_breaks.BY_SCENARIO)


@pytest.mark.slow
@pytest.mark.parametrize("broken", BY_SIMULATION, ids=lambda broken: broken.__name__)
def test_the_simulation_catches(broken: object, monkeypatch: pytest.MonkeyPatch) -> None:
    assert callable(broken)
    broken(monkeypatch)
    for seed in SEEDS:
        result = run_seed(seed, breaks.FAULTS_FOR.get(broken, frozenset()))
        if isinstance(result, Failure):
            assert result.problem.startswith(("Violation", "AssertionError", "Spinning")), result
            return
    pytest.fail(f"{len(SEEDS)} histories went well with broken code")


@pytest.mark.parametrize(
    ("broken", "scenario"),
    BY_SCENARIO,
    ids=[f"{broken.__name__}-{scenario}" for broken, scenario in BY_SCENARIO],
)
def test_a_scenario_catches(broken: object, scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written = (SCENARIOS / f"{scenario}.txt").read_text()
    assert Transcript().play(written) == written
    assert callable(broken)
    broken(monkeypatch)
    try:
        played = Transcript().play(written)
    except AssertionError:
        return  # the core itself noticed
    assert played != written
