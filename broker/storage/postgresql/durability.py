"""The guarantee of a confirm on PostgreSQL: the places of a committed transaction, by the settings of the server."""

import re
from dataclasses import dataclass

from .database import WATCH, PostgreSQL

LIMIT_S = 5.0
# Values of synchronous_commit with which a commit waits for the disks of synchronous standbys
STRONG = ("on", "remote_apply")
SETTINGS = ("synchronous_commit", "synchronous_standby_names", "fsync")


@dataclass(frozen=True, slots=True)
class Guarantee:
    """The places that have a confirmed message. `warning` is empty unless they are weaker than they may seem."""

    text: str
    warning: str = ""
    replicated: bool = False  # whether a commit waits for a standby, at least for its memory


def read(database: PostgreSQL) -> Guarantee:
    """Read the settings of the server, and return their guarantee. Raises Unreachable, Refused."""
    settings = ", ".join(f"current_setting('{name}')" for name in SETTINGS)
    states_of_standbys = "SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'"
    row, standbys = database.run(WATCH, [(f"SELECT {settings}", ()), (states_of_standbys, ())], LIMIT_S)
    commit, names, fsync = [(cell or b"").decode() for cell in row[0]]
    states = [(state[0] or b"").decode() for state in standbys]
    return guarantee(commit, names, fsync == "on", states)


def guarantee(commit: str, names: str, fsync: bool, states: list[str]) -> Guarantee:
    """Return the guarantee of settings; `states` are the sync_states of the standbys, empty if they are hidden."""
    for setting, is_off in (("fsync", not fsync), ("synchronous_commit", commit == "off")):
        if is_off:
            problem = f"{setting} is off: a crash of the server may lose confirmed messages"
            return Guarantee("the memory of one server", problem)
    wanted = wanted_standbys(names)
    if not wanted or commit == "local":
        reason = "synchronous_commit is local" if wanted else "synchronous_standby_names is empty"
        warning = f"{reason}: confirmed messages are lost with the disk of the server"
        return Guarantee("the disk of one server", warning)
    quorum = "any " if names.strip().lower().startswith("any") else ""
    standbys = f"{quorum}{wanted} {'standby' if wanted == 1 else 'standbys'}"
    if commit not in STRONG:
        text = f"the disk of the server and in the memory of {standbys}"
        warning = f"synchronous_commit is {commit}: a standby that loses power may lose confirmed messages"
        return Guarantee(text, warning, replicated=True)
    text = f"the disks of the server and of {standbys}"
    if states and sum(state in ("sync", "quorum") for state in states) < wanted:
        warning = f"fewer than {wanted} synchronous standbys are connected: nothing is confirmed until then"
        return Guarantee(text, warning, replicated=True)
    return Guarantee(text, replicated=True)


def wanted_standbys(names: str) -> int:
    """Return how many standbys a commit waits for, with this value of synchronous_standby_names."""
    names = names.strip()
    if not names:
        return 0
    counted = re.match(r"(?:(?:first|any)\s+)?(\d+)\s*\(", names, re.IGNORECASE)
    return int(counted[1]) if counted else 1
