"""What the table in plugins/README.md says, and that what measured it still runs."""

import pytest

from warren.plugins import comparison


@pytest.fixture(autouse=True)
def fewer_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "KEYS", 5000)
    monkeypatch.setattr(comparison, "UNSEEN", 2000)


def test_modulus_moves_nearly_all_keys_and_consistent_hash_few():
    assert comparison.reshuffled("x-modulus-hash", 10) == pytest.approx((91, 90), abs=3)
    assert comparison.reshuffled("x-consistent-hash", 10) == pytest.approx((9, 10), abs=3)


def test_the_table_has_a_cell_for_each_type_and_figure():
    rows = [line.split("|") for line in comparison.lines()]
    assert {len(row) for row in rows} == {len(comparison.TYPES) + 3}
    assert all(cell.strip()[0].isdigit() for row in rows[2:] for cell in row[2:-1])
