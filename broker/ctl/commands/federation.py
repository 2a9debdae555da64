"""Commands for federation links."""

from functools import partial

from ..call import Call, Item
from ..command import COLUMNS, FEDERATION, Columns
from ..errors import UNAVAILABLE, CommandError

RABBITMQ = (
    "consumer_tag error exchange id last_changed local_connection queue status type"
    " upstream upstream_exchange upstream_queue uri vhost"
)
# Columns that RabbitMQ does not have
MORE = (
    "policy state reason degraded backlog lag_ms retries reconnects next_attempt_at"
    " forwarded unconfirmed nacked dropped_max_hops dropped_seen dropped_invalid bindings"
)


def cell(link: Item, column: str) -> object:
    if column == "last_changed":
        day, _, clock = str(link.get("timestamp", "")).partition(" ")  # the API writes the hour without a leading zero
        return f"{day} {clock:0>8}" if clock else ""
    if column == "next_attempt_at" and column in link:
        from datetime import datetime  # other commands do not need it

        return f"{datetime.fromisoformat(link[column]).astimezone():%Y-%m-%d %H:%M:%S}"
    value = link.get(column)
    return "" if value is None else value


COLUMN: Columns = {name: partial(cell, column=name) for name in f"{RABBITMQ} {MORE}".split()}


def status_banner(call: Call) -> str:
    down = " which are down" if call.flag("only-down") else ""
    return f"Listing federation links{down} on node {call.node}..."


def links(call: Call) -> list[Item]:
    """Return the links, none for a broker without federation."""
    return call.list_of("federation-links/state/down" if call.flag("only-down") else "federation-links")


def restart_federation_link(call: Call) -> None:
    """Raises CommandError (69) for an unknown link."""
    for link in call.list_of("federation-links"):
        if link["id"] == call.arguments[0]:
            path = "federation-links/vhost/{vhost_name}/{0}/{node_name}/restart"
            call.delete(path, vhost_name=link["vhost"], node_name=link["node"])
            return
    raise CommandError(UNAVAILABLE, "Link with the given ID was not found")


# fmt: off
FEDERATION(f"federation_status [--only-down] {COLUMNS}: Displays the state of federation links",
           status_banner, links, columns=COLUMN, brief="upstream type exchange queue status state backlog error reason",
           format="maps")
FEDERATION("restart_federation_link <link_id>: Restarts a federation link",
           "Restarting federation link {0} on node {node}", restart_federation_link)
