"""The simulation bites: each way of breaking the code is caught (see breaks.py)."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from quorum_node.simulation.run import Failure, run_seed
from support.raft.transcript import Transcript

SCENARIOS = Path(__file__).parents[1] / "scenarios"
SEEDS = range(1, 41)


def _load_breaks() -> ModuleType:
    """breaks.py lies beside this file; test folders are no packages."""
    spec = importlib.util.spec_from_file_location("breaks", Path(__file__).with_name("breaks.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["breaks"] = module
    spec.loader.exec_module(module)
    return module


breaks = _load_breaks()


@pytest.mark.slow
@pytest.mark.parametrize("broken", breaks.BY_SIMULATION, ids=lambda broken: broken.__name__)
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
    breaks.BY_SCENARIO,
    ids=[f"{broken.__name__}-{scenario}" for broken, scenario in breaks.BY_SCENARIO],
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
