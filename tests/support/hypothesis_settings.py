"""Settings of hypothesis: a modest number of examples by default, WARREN_FUZZ_EXAMPLES of them for `make fuzz`."""

import os

from hypothesis import HealthCheck, settings

FUZZ = int(os.environ.get("WARREN_FUZZ_EXAMPLES", "0"))


def examples(modest: int) -> settings:
    """Settings with this number of examples, or more if the environment says so."""
    slow = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
    return settings(max_examples=max(modest, FUZZ), deadline=None, suppress_health_check=slow)
