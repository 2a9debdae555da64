"""The names of the node's objects that shells offer; tests of the shells themselves are in ../system."""

from collections.abc import Callable, Iterator

import pytest

from tests.support.fake_federation import FakeFederation, row
from tests.support.warrenctl import Controlled
from warren.broker.ctl.main import main

pytestmark = pytest.mark.sockets
Candidates = Callable[[str], list[str]]


@pytest.fixture
def candidates(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Candidates:
    """Return what a shell offers at the end of a line."""

    def complete(line: str) -> list[str]:
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(line.count(" ")))
        monkeypatch.setenv("_WARRENCTL_COMPLETE", "bash_complete")
        main()
        out, err = capsys.readouterr()
        assert not err
        return [one.partition(",")[2] for one in out.splitlines() if one]

    return complete


@pytest.fixture
def objects(controlled: Controlled) -> Iterator[Controlled]:
    """A node with objects of each kind that names are asked of."""

    def declare() -> None:
        node = controlled.host.node
        vhost = node.vhosts["/"]
        many = (f"many.{number:04}" for number in range(300))
        for name in ("orders", "orders.eu", "jobs", "with space", "it's", "$(reboot)", "border", *many):
            vhost.declare_queue(name)
        vhost.declare_exchange("orders.x", "topic")
        node.add_vhost("other").declare_queue("theirs")
        node.policies.set("/", "ttl", "^o", {"message-ttl": 1}, 0, "queues")

    controlled.listening.call(declare)
    controlled.host.services["federation"] = FakeFederation(row(id="aaaaaaaa", node="node"))
    yield controlled
    controlled.host.services.clear()


LINES = {
    "purge_queue or": ["orders", "orders.eu"],
    "purge_queue orders ": [],  # it has no second argument
    "purge_queue --vhost other ": ["theirs"],
    "purge_queue w": [],  # a shell would have to quote it
    "purge_queue $": [],
    "purge_queue nothing": [],
    "move_messages jobs orders.": ["orders.eu"],
    "clear_topic_permissions guest or": ["orders.x"],
    "delete_user g": ["guest"],
    "add_vhost o": ["other"],
    "list_queues -p o": ["other"],
    "list_user_limits --user g": ["guest"],
    "clear_policy ": ["ttl"],
    "restart_federation_link a": ["aaaaaaaa"],
    "set_policy new ^orders": [],
    "purge_queue --vhost missing ": [],
}


def test_names_of_objects_are_offered(objects: Controlled, candidates: Candidates) -> None:
    here = f"warrenctl --data {objects.folder}"
    assert {line: candidates(f"{here} {line}") for line in LINES} == LINES
    assert candidates(f"{here} purge_queue many.") == [f"many.{number:04}" for number in range(100)]


def test_without_a_node_no_names_are_offered(candidates: Candidates, tmp_path: object) -> None:
    for where in (f"--data {tmp_path}", "--url http://127.0.0.1:1", "--url nonsense"):
        assert candidates(f"warrenctl {where} purge_queue o") == []
