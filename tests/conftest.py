"""Plugins of our own; they live in tests/support, where they are typed and linted like the rest."""

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("support")

pytest_plugins = [
    "support.requirement_plugin",
    "support.stages",
    "support.long_run",
    "support.warm_start",
]

# How long an example takes says something about the machine, not about the code.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
