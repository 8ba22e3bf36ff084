"""The properties of the planner with many more examples than the short set has, and others each time."""

import inspect
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import is_hypothesis_test as is_property

from support.break_table import load

EXAMPLES = 400
FILES = (
    "test_lost_identity",
    "test_older_quorum",
    "test_plan_properties",
    "test_plan_total",
    "test_quorum_loss",
    "test_rebuilding",
    "test_recovery_plan",
    "test_taking_back",
)


def properties(file: str) -> dict[str, Any]:
    """Those of a file that take nothing but examples."""
    module = load(Path(__file__).with_name(f"{file}.py"))
    found = {name: each for name, each in vars(module).items() if name.startswith("test_")}
    return {
        name: each
        for name, each in found.items()
        if is_property(each) and not inspect.signature(each).parameters
    }


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("file", FILES)
def test_property_holds_for_many_more_examples(file: str) -> None:
    found = properties(file)
    assert found
    for name, each in found.items():
        print(name)
        few = each._hypothesis_internal_use_settings
        many = settings(few, max_examples=EXAMPLES, derandomize=False)
        many(given(**each.hypothesis._given_kwargs)(each.hypothesis.inner_test))()
