"""`make migration` for a short while, between two Warrens: nothing that was confirmed is lost."""

import asyncio
import logging
from pathlib import Path

import pytest

from tools.migration_faults.rounds import Side, migrate

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(600)]


def test_nothing_is_lost_while_both_brokers_and_the_command_are_killed(tmp_path: Path) -> None:
    sides = [Side(name, tmp_path) for name in ("source", "target")]
    logging.disable(logging.CRITICAL)
    try:
        work = migrate(tmp_path, *sides, 16, {0: 2000, 5: 500}, ("command", "target", "source", "command"))
        outcome, _ = asyncio.run(work)
    finally:
        logging.disable(logging.NOTSET)
        for side in sides:
            side.close()
    assert outcome.confirmed > 2500
    assert (outcome.lost, outcome.disordered) == (0, 0), str(outcome)
