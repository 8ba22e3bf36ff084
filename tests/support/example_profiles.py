"""Pytest plugin: which examples the tests of properties have, by `--hypothesis-profile`.

How long an example takes, or is drawn, says something about the machine, not about the code.
"""

from hypothesis import HealthCheck, settings

_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

# The same examples in each run: a test that fails once in a hundred runs would stop somebody whose change has nothing to do with it.
settings.register_profile("repeatable", _PATIENT, derandomize=True)
# Others in each run, for `make properties`. Said in full, because Hypothesis derandomizes by itself where the variable CI is set.
settings.register_profile("searching", _PATIENT, derandomize=False, print_blob=True)
settings.load_profile("repeatable")
