"""The table of faults in the documents has the scenarios of `make chaos`."""

import re

from tests.support.checkout import ROOT
from tools.chaos.scenarios import SCENARIOS

VERDICTS = {"held", "**not held**", "not run"}
ROW = re.compile(r"^\| (\d+) \| ([^|]+) \| [^|]+ \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)


def test_the_rows_are_the_scenarios_by_number_and_name() -> None:
    text = (ROOT / "docs" / "measurements.md").read_text(encoding="utf-8")
    section = text.partition("\n## Faults\n")[2].partition("\n## ")[0]
    rows = ROW.findall(section)
    assert [(int(number), name) for number, name, _ in rows] == [(one.number, one.name) for one in SCENARIOS]
    assert {verdict for _, _, verdict in rows} <= VERDICTS


def test_each_scenario_has_a_number_of_its_own_and_the_demanded_ones_are_there() -> None:
    numbers = [one.number for one in SCENARIOS]
    assert len(set(numbers)) == len(numbers) and set(range(1, 29)) <= set(numbers)
