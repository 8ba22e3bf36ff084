"""Keys of limits and defaults of the dynamic configs of groups. Names and defaults are Kafka's."""

from collections.abc import Mapping
from typing import Any

from quorum_node.configuration.key import Key
from quorum_node.configuration.value_kinds import Integer
from quorum_node.controller.group_config_types import GROUP_CONFIGS, NODE_NUMBERS


def _meaning(name: str) -> str:
    config = name.removeprefix("group.")
    if config in GROUP_CONFIGS:
        return f"`{config}` of groups that do not set it"
    kind, bound, rest = config.split(".", 2)
    if rest == "standby.replicas":
        rest = "num.standby.replicas"
    return f"{'minimum' if bound == 'min' else 'maximum'} of `{kind}.{rest}` of groups"


GROUP_LIMITS: Mapping[str, Key[int]] = {
    name: Key(name, Integer(number.least, number.most), number.default, _meaning(name))
    for name, number in sorted(NODE_NUMBERS.items())
}

SECTIONS: Mapping[str, tuple[Key[Any], ...]] = {
    "Limits of configs of groups": tuple(GROUP_LIMITS.values()),
}
