"""The checker accepts what a queue may do, and refuses what it must not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.linearizability.runs import check

pytestmark = pytest.mark.rest("needs Go")

Operation = tuple[int, str, str, str]  # client, function, value, end
DRAINED: Operation = (0, "empty", "", "ok")


def sequence(*operations: Operation) -> list[dict[str, object]]:
    """The lines of operations, one after the other."""
    lines: list[dict[str, object]] = []
    for client, function, value, end in operations:
        for type_ in ("invoke", end):
            lines.append({"client": client, "type": type_, "f": function, "value": value, "time_ns": len(lines)})
    return lines


PUBLISHED, TAKEN = (1, "publish", "a", "ok"), (2, "take", "a", "ok")
UNKNOWN_PUBLISH, UNKNOWN_TAKE = (1, "publish", "a", "info"), (2, "take", "a", "info")


@pytest.mark.parametrize(
    ("model", "good", "operations"),
    [
        ("set", True, [PUBLISHED, TAKEN, DRAINED]),
        ("set", True, [PUBLISHED, UNKNOWN_TAKE, DRAINED]),
        ("set", True, [PUBLISHED, UNKNOWN_TAKE, (3, "take", "a", "ok"), DRAINED]),
        ("set", True, [UNKNOWN_PUBLISH, DRAINED]),
        ("set", True, [UNKNOWN_PUBLISH, TAKEN, DRAINED]),
        ("set", False, [PUBLISHED, DRAINED]),
        ("set", False, [PUBLISHED, TAKEN, (3, "take", "a", "ok"), DRAINED]),
        ("set", False, [TAKEN, PUBLISHED, DRAINED]),
        ("queue", True, [PUBLISHED, (1, "publish", "b", "ok"), TAKEN, (2, "take", "b", "ok"), DRAINED]),
        ("queue", False, [PUBLISHED, (1, "publish", "b", "ok"), (2, "take", "b", "ok"), TAKEN, DRAINED]),
        ("queue", False, [PUBLISHED, (2, "empty", "", "ok"), TAKEN, DRAINED]),
    ],
)
def test_a_history_is_linearizable_or_not(tmp_path: Path, model: str, good: bool, operations: list[Operation]) -> None:
    history = tmp_path / "history.jsonl"
    history.write_text("".join(f"{json.dumps(line)}\n" for line in sequence(*operations)), encoding="utf-8")
    outcome = check(model, history)
    if outcome.holds is None:
        pytest.skip(outcome.text)
    assert outcome.holds is good, outcome.text
