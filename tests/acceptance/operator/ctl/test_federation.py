"""Federation links as warrenctl lists and restarts them."""

import json
from collections.abc import Iterator
from datetime import datetime

import pytest

from tests.support.fake_federation import CHANGED_S, FakeFederation, row
from tests.support.warrenctl import Controlled, Warrenctl
from warren.broker.amqp.errors import Invalid
from warren.broker.ctl.commands.federation import COLUMN, RABBITMQ

pytestmark = pytest.mark.sockets

AT = datetime.fromtimestamp(CHANGED_S).strftime("%Y-%m-%d %H:%M:%S")
EMPTY = {"error": "", "local_connection": "", "state": "", "reason": ""}


class Links(FakeFederation):
    def __init__(self) -> None:
        self.refusal = ""
        queue = {"type": "queue", "name": "q", "upstream_name": "p", "consumer_tag": "tag", "status": "starting"}
        super().__init__(
            row(id="aaaaaaaa", node="node"),
            row(id="bbbbbbbb", node="node", **EMPTY | queue),
            row(id="cccccccc", node="node", **EMPTY | {"status": "error", "error": '"refused"'}),
            row(id="dddddddd", node="node", **EMPTY | {"status": "invalid_upstream_uri", "uri": ""}),
        )

    def restart(self, id: str) -> bool:
        if self.refusal:
            raise Invalid(self.refusal)
        return super().restart(id)


@pytest.fixture
def links(controlled: Controlled) -> Iterator[Links]:
    made = Links()
    controlled.host.services["federation"] = made
    yield made
    controlled.host.services.clear()


def rows_of(warrenctl: Warrenctl, line: str) -> list[dict[str, str]]:
    """Return the rows of the output without empty columns."""
    status, out, err = warrenctl(f"{line} --formatter json")
    assert (status, err) == (0, "")
    return [{column: value for column, value in row.items() if value != ""} for row in json.loads(out)]


def test_links_are_listed_in_rabbitmqs_columns(links: Links, in_process: Warrenctl) -> None:
    by_id = sorted(rows_of(in_process, f"federation_status {RABBITMQ}"), key=lambda row: row["id"])
    exchange, queue, failed, _ = by_id
    same = {"vhost": "/", "upstream": "origin", "uri": "amqp://origin:5672/%2f", "last_changed": AT}
    where = {"type": "exchange", "exchange": "x", "upstream_exchange": "x"}
    running = {"status": "running", "local_connection": "link 1"}
    assert exchange == same | where | running | {"id": "aaaaaaaa"}
    from_queue = {"type": "queue", "queue": "q", "upstream_queue": "p", "consumer_tag": "tag"}
    assert queue == same | from_queue | {"id": "bbbbbbbb", "status": "starting"}
    assert failed == same | where | {"id": "cccccccc", "status": "error", "error": '"refused"'}


def test_counters_of_links_are_listed_too(links: Links, in_process: Warrenctl) -> None:
    failing = {"status": "error", "retries": 4, "next_attempt_s": CHANGED_S, "dropped_invalid": 2}
    blocked = row(state="blocked", reason="a queue refuses", degraded=True, dropped_seen=3, dropped_max_hops=0)
    links.rows = [blocked, row(**EMPTY | failing, backlog=None)]
    blocked, failed = rows_of(in_process, "federation_status")
    assert (blocked["state"], blocked["reason"], blocked["degraded"]) == ("blocked", "a queue refuses", True)
    assert (blocked["backlog"], blocked["dropped_seen"], blocked["dropped_max_hops"]) == (7, 3, 0)
    assert (failed["retries"], failed["dropped_invalid"]) == (4, 2)
    assert failed["next_attempt_at"] == AT
    table = in_process("federation_status -s --formatter table state backlog,reason")[1]
    assert table.splitlines()[-2:] == ["blocked\t7\ta queue refuses", "\t\t"]
    status, _, err = in_process("federation_status state colour")
    assert status == 64 and "colour" in err


def test_only_links_that_are_down_are_listed(links: Links, in_process: Warrenctl) -> None:
    down = rows_of(in_process, "federation_status --only-down")
    assert [row["id"] for row in down] == ["cccccccc", "dddddddd"]
    banner = in_process("federation_status --only-down")[1].splitlines()[0]
    assert banner == "Listing federation links which are down on node node..."


def test_links_are_written_as_erlang_writes_maps(links: Links, in_process: Warrenctl) -> None:
    links.rows = [row(id="cccccccc", **EMPTY | {"status": "error", "error": '"refused"'})]
    map_ = '[#{consumer_tag => <<>>,error => <<"\\"refused\\"">>,exchange => <<"x">>,id => <<"cccccccc">>,'
    for line in ("federation_status", "federation_status --formatter erlang"):
        banner, terms = in_process(line)[1].splitlines()
        assert banner == "Listing federation links on node node..."
        assert terms.startswith(map_)
        assert ",status => error,type => exchange,upstream => " in terms
    assert in_process("federation_status -s --formatter table")[1].count("\t") == len(COLUMN) - 1


def test_without_links_the_list_is_empty(controlled: Controlled, in_process: Warrenctl) -> None:
    assert in_process("federation_status") == (0, "Listing federation links on node node...\n[]\n", "")
    assert in_process("federation_status --formatter json") == (0, "[\n]\n", "")


def test_a_link_is_restarted_and_an_unknown_one_is_not(links: Links, in_process: Warrenctl) -> None:
    restarted = "Restarting federation link aaaaaaaa on node node\n"
    assert in_process("restart_federation_link aaaaaaaa") == (0, restarted, "")
    assert links.restarted == ["aaaaaaaa"]
    unknown = "Error:\nLink with the given ID was not found\n"
    assert in_process("restart_federation_link eeeeeeee")[::2] == (69, unknown)
    assert in_process("restart_federation_link")[0] == 64
    assert in_process("restart_federation_link a b")[0] == 64


def test_the_reason_for_which_a_link_is_refused_is_printed(links: Links, in_process: Warrenctl) -> None:
    links.refusal = "warren.federation_link_limit is reached"
    assert in_process("restart_federation_link aaaaaaaa")[::2] == (69, f"Error:\n{links.refusal}\n")
    assert links.restarted == []
