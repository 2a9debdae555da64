"""The seeds of the simulations: kept ones run first, and a failure says how to keep its seed."""

from pathlib import Path

from tests.faults.simulation import seeds


def test_every_kept_seed_is_one_of_a_simulation() -> None:
    tests = "\n".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.rglob("test_*.py"))
    lines = seeds.KEPT.read_text(encoding="utf-8").splitlines()
    names = {line.split()[0] for line in lines if not line.startswith("#")}
    assert [name for name in sorted(names) if f"def {name}(world" not in tests] == []
