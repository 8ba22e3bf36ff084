"""The properties file of the members."""

import pytest

from quorum_node.java_properties import parse_properties
from quorum_operator.desired import config
from quorum_operator.desired.names import CONFIG_FILE, Owner

OWNER = Owner("demo", "space", "uid")
KEY = "log.level"


def written(value: str) -> dict[str, str]:
    made = config.build(OWNER, {KEY: value}, secured=False)
    return parse_properties(made["data"][CONFIG_FILE], unique=True)


@pytest.mark.parametrize(
    "value",
    ["INFO", "a\nnode.id=9", "a\r\nprocess.roles=broker", "a\\", "\\n", "a=b:c", "#", "a\u2028b=c"],
)
def test_a_value_of_the_spec_is_one_value(value: str) -> None:
    """Whatever it contains, it sets no property that spec.config may not hold, and takes none away."""
    without = config.properties(OWNER, {}, secured=False)
    assert written(value) == {**without, KEY: value}


@pytest.mark.parametrize("value", ["INFO\n", " INFO "])
def test_the_line_break_at_the_end_of_a_block_of_yaml_is_no_part_of_the_value(value: str) -> None:
    assert written(value)[KEY] == "INFO"
