"""The check of conservation without Spark, on the logs of `test_proof`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from warren.plugins.message_log.analysis.conservation.check import CheckResult
from warren.plugins.message_log.ledger import queues, verdict
from warren.plugins.message_log.ledger.engine import InProcess
from warren.plugins.message_log.ledger.input import Folder
from warren.plugins.message_log.ledger.ledger import Ledger, make_ledger
from warren.plugins.message_log.ledger.report import conservation_of

from .scenes import damaged
from .test_proof import (
    test_a_log_that_lacks_its_end_or_its_predecessor_is_incomplete,
    test_a_loss_is_found,
    test_losses_that_are_not_certain_are_reasons,
    test_nothing_else_is_found_of_it,
    test_queues_that_need_keep_nothing_are_not_in_it,
    test_the_files_are_counted,
    test_the_section_durability_has_what_each_queue_kept,
    test_what_is_legal_or_unknown_is_no_loss,
    write_scenes,
)

__all__ = [
    "test_a_log_that_lacks_its_end_or_its_predecessor_is_incomplete",
    "test_a_loss_is_found",
    "test_losses_that_are_not_certain_are_reasons",
    "test_nothing_else_is_found_of_it",
    "test_queues_that_need_keep_nothing_are_not_in_it",
    "test_the_files_are_counted",
    "test_the_section_durability_has_what_each_queue_kept",
    "test_what_is_legal_or_unknown_is_no_loss",
]


def ledger_of(folder: Path, stored: Path) -> Ledger:
    return make_ledger(InProcess(), Folder(str(folder)), Folder(str(stored)))


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory) -> CheckResult:
    folder = tmp_path_factory.mktemp("proof")
    write_scenes(folder)
    ledger = ledger_of(folder, tmp_path_factory.mktemp("stored"))
    kept = [asdict(each) for each in ledger.durability]
    return CheckResult(conservation_of(ledger), kept, len(kept), ledger.verdict.sentence(len(ledger.imbalances)))


@pytest.fixture(scope="module")
def problems(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The problems of each broker of `scenes.damaged`, by its name."""
    folder = tmp_path_factory.mktemp("damaged")
    damaged(folder)
    ledger = ledger_of(folder, tmp_path_factory.mktemp("stored"))
    found: dict[str, set[str]] = {boot.node: set() for boot in ledger.boots}
    for each in ledger.imbalances:
        found[each.node or ""].add(each.problem)
    return found


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("published", {verdict.MISSING, verdict.UNROUTED}),
        ("enqueued", {verdict.MISSING, verdict.UNEQUAL, verdict.UNROUTED, verdict.UNLOGGED_IN, queues.NEVER_ENTERED}),
        ("delivered", {verdict.MISSING, queues.UNDELIVERED}),
        ("acknowledged", {verdict.MISSING, verdict.UNEQUAL, verdict.UNLOGGED_ACKS, queues.VANISHED}),
        ("confirmed", {verdict.MISSING}),
        ("message", {verdict.MISSING, verdict.UNLOGGED_IN, verdict.UNLOGGED_ACKS}),
        ("vanished", {verdict.UNEQUAL, queues.VANISHED}),
        ("twice", {verdict.UNEQUAL, queues.LEFT_TWICE}),
        ("jumped", set()),
        ("dropping", {verdict.MISSING}),
        ("unstopped", set()),
        ("sampled", set()),
    ],
)
def test_each_damage_has_its_problems(problems: dict[str, set[str]], name: str, expected: set[str]) -> None:
    assert problems[f"rabbit@{name}"] - {verdict.FILE_CHANGED} == expected
