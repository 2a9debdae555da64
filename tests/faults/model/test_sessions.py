"""The broker agrees with the model of sessions and queues in every frame, whatever its clients do."""

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.support.hypothesis_settings import examples

from .machine import PROFILES, SessionMachine

STEPS = 40


@pytest.mark.parametrize("profile", PROFILES)
def test_the_broker_and_the_model_agree(profile: str) -> None:
    machine = type("SessionMachine", (SessionMachine,), {"profile": profile})
    bounded = settings(examples(30), stateful_step_count=STEPS, report_multiple_bugs=False)
    run_state_machine_as_test(machine, settings=bounded)
