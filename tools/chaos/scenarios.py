"""All scenarios, by number."""

from . import clock, connections, crash, disk, federation, linearizability, memory, objects, wire

SCENARIOS = sorted(
    (
        scenario
        for family in (crash, disk, memory, connections, objects, wire, clock, federation, linearizability)
        for scenario in family.SCENARIOS
    ),
    key=lambda scenario: scenario.number,
)
