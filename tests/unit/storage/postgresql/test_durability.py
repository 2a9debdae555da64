"""The guarantee of a confirm, by the settings of the server."""

import pytest

from warren.broker.storage.postgresql.durability import guarantee, wanted_standbys


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        ("", 0),
        (" ", 0),
        ("*", 1),
        ("b", 1),
        ("b, c", 1),
        ("2 (b, c, d)", 2),
        ("FIRST 2 (b, c)", 2),
        ("any 2(b, c, d)", 2),
    ],
)
def test_the_names_say_how_many_standbys_a_commit_waits_for(names: str, wanted: int) -> None:
    assert wanted_standbys(names) == wanted


@pytest.mark.parametrize(
    ("commit", "names", "states", "text", "warning"),
    [
        ("on", "b", ["sync"], "the disks of the server and of 1 standby", ""),
        ("remote_apply", "b", ["sync"], "the disks of the server and of 1 standby", ""),
        ("on", "ANY 2 (b, c, d)", ["quorum"] * 3, "the disks of the server and of any 2 standbys", ""),
        ("on", "2 (b, c)", ["sync"], "the disks of the server and of 2 standbys", "fewer than 2"),
        ("on", "b", [], "the disks of the server and of 1 standby", ""),
        ("on", "", ["async"], "the disk of one server", "synchronous_standby_names is empty"),
        ("local", "b", ["sync"], "the disk of one server", "synchronous_commit is local"),
        (
            "remote_write",
            "b",
            ["sync"],
            "the disk of the server and in the memory of 1 standby",
            "synchronous_commit is remote_write",
        ),
        ("off", "b", ["sync"], "the memory of one server", "synchronous_commit is off"),
    ],
)
def test_the_guarantee_follows_settings(commit: str, names: str, states: list[str], text: str, warning: str) -> None:
    found = guarantee(commit, names, True, states)
    assert found.text == text
    assert found.warning.startswith(warning) and bool(found.warning) == bool(warning)
    assert found.replicated == ("standby" in text)


def test_without_fsync_nothing_is_sure() -> None:
    found = guarantee("on", "b", False, ["sync"])
    assert "fsync is off" in found.warning and not found.replicated
