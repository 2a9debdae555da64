"""The seeds of the simulations: kept ones run first, and a failure says how to keep its seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.simulation import seeds


class World:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.trace = [f"a step of {seed}"]


def blocks_of(test: object) -> list[list[int]]:
    (mark,) = test.pytestmark  # type: ignore[attr-defined]
    return mark.args[1]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "seeds.txt"
    path.write_text("# test, seed, date, what failed\ntest_it 700 2026-11-24 a loss\ntest_that 5 2026-11-24 a crash\n")
    monkeypatch.setattr(seeds, "KEPT", path)
    monkeypatch.setattr(seeds, "FIRST", 1)
    monkeypatch.setattr(seeds, "ONLY", None)
    return path


def test_kept_seeds_run_first_and_then_the_range(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def test_it(world: World) -> None: ...

    def test_another(world: World) -> None: ...

    assert blocks_of(seeds.each_seed(World, 27)(test_it)) == [[700], list(range(1, 26)), [26, 27]]
    assert blocks_of(seeds.each_seed(World, 2)(test_another)) == [[1, 2]]
    monkeypatch.setattr(seeds, "ONLY", "9")
    assert blocks_of(seeds.each_seed(World, 27)(test_it)) == [[9]]


def test_the_line_that_a_failure_prints_keeps_its_seed(kept: Path) -> None:
    def test_it(world: World) -> None:
        assert world.seed != 8, "lost"

    with pytest.raises(AssertionError, match="SEED=8 repeats this: AssertionError: lost") as failed:
        seeds.each_seed(World)(test_it)([7, 8, 9])
    with kept.open("a") as file:
        file.write(str(failed.value).rpartition(": ")[2] + "\n")
    assert seeds.kept_seeds("test_it") == [700, 8]


def test_a_line_that_is_none_is_an_error(kept: Path) -> None:
    kept.write_text("test_it 700\n")
    with pytest.raises(ValueError):
        seeds.kept_seeds("test_it")


def test_every_kept_seed_is_one_of_a_simulation() -> None:
    tests = "\n".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.rglob("test_*.py"))
    lines = seeds.KEPT.read_text(encoding="utf-8").splitlines()
    names = {line.split()[0] for line in lines if not line.startswith("#")}
    assert [name for name in sorted(names) if f"def {name}(world" not in tests] == []
