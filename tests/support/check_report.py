"""A report of the acceptance checks at the end of a run, also where other processes ran the tests.

It is a plugin of pytest: tests/acceptance/amqp/conftest.py adds the numbers of its checks to each test, and the
reports bring them here.
"""

import pytest

CHECK = "check"  # the name of the property that has a number
LAST_CHECK = 230
LATER: dict[int, str] = {}
ELSEWHERE = {  # what needs more than one broker can show while it runs, or plugins
    178: "tests/faults/crash/test_message_states.py",
    185: "tests/faults/crash/test_message_states.py",
    **dict.fromkeys((*range(190, 194), 204), "tests/unit/plugins/test_hashing_and_random.py"),
    **dict.fromkeys((194, 195), "tests/unit/plugins/test_modulus_hash_guide.py"),
    **dict.fromkeys(range(196, 203), "tests/unit/plugins/test_presence_guide.py"),
    203: "tests/unit/plugins/test_recent_history.py",
    205: "tests/unit/plugins/test_delayed_message.py",
    206: "tests/unit/plugins/test_deduplication_by_clients.py",
    223: "tests/faults/crash/test_restarted.py",
    224: "tests/faults/crash/test_restarted.py",
    225: "tests/faults/crash/test_killed.py",
    230: "tests/clients/test_celery.py",
}
_covered: dict[int, set[str]] = {}  # the number of a check -> outcomes of its tests


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
        for name, number in report.user_properties:
            if name == CHECK and isinstance(number, int):
                _covered.setdefault(number, set()).add(outcome)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _covered:
        return
    passed = sorted(number for number, outcomes in _covered.items() if outcomes == {"passed"})
    failed = sorted(number for number, outcomes in _covered.items() if "failed" in outcomes)
    known = {*_covered, *LATER, *ELSEWHERE}
    missing = [number for number in range(1, LAST_CHECK + 1) if number not in known]
    write = terminalreporter.write_line
    terminalreporter.section("acceptance checks")
    write(f"{len(passed)} passed of {len(_covered)} covered, of {LAST_CHECK} in all; failed: {failed or 'none'}")
    write(f"skipped or different: {sorted(set(_covered) - set(passed) - set(failed)) or 'none'}")
    write(f"without a test: {missing or 'none'}")
    for word, table in (("elsewhere", ELSEWHERE), ("later", LATER)):
        for number, what in sorted(table.items()):
            if number not in _covered:
                write(f"{word}: {number} ({what})")
