"""Plugins of our own; they live in tests/support, where they are typed and linted like the rest."""

import pytest

pytest.register_assert_rewrite("support")

pytest_plugins = ["support.requirement_plugin", "support.stages", "support.long_run"]
