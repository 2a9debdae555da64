"""How many examples hypothesis tries: a modest number by default, WARREN_FUZZ_EXAMPLES of them for `make fuzz`."""

import os

from hypothesis import HealthCheck, settings

FUZZ = int(os.environ.get("WARREN_FUZZ_EXAMPLES", "0"))


def examples(modest: int) -> settings:
    """So many examples, unless the environment asks for more."""
    slow = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
    return settings(max_examples=max(modest, FUZZ), deadline=None, suppress_health_check=slow)
