"""The benchmark of hash exchanges: its figures agree with the table in docs/plugins.md."""

import pytest

from tools.bench import hash_exchanges


@pytest.fixture(autouse=True)
def fewer_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hash_exchanges, "KEYS", 5000)
    monkeypatch.setattr(hash_exchanges, "UNSEEN", 2000)


def test_modulus_moves_nearly_all_keys_and_consistent_hash_few():
    assert hash_exchanges.reshuffled("x-modulus-hash", 10) == pytest.approx((91, 90), abs=3)
    assert hash_exchanges.reshuffled("x-consistent-hash", 10) == pytest.approx((9, 10), abs=3)


def test_the_table_has_a_cell_for_each_type_and_figure():
    rows = [line.split("|") for line in hash_exchanges.lines()]
    assert {len(row) for row in rows} == {len(hash_exchanges.HASH_TYPES) + 3}
    assert all(cell.strip()[0].isdigit() for row in rows[2:] for cell in row[2:-1])
