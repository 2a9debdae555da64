"""Commands that change queues, connections, federation links, definitions and the cluster."""

from __future__ import annotations

import time
from datetime import datetime
from functools import partial

from ..answers import CommandError, Rows
from ..api_client import APIError, NotFound
from ..columns import Columns, select_columns
from ..exit_status import DATA, UNAVAILABLE, USAGE
from ..link_columns import COLUMNS, local_time
from .call import Call, Handler, Item
from .lists import connections, pid

DOWN = ("federation-links", "state", "down")
DEFAULT_EXCHANGE = "amq.default"  # how paths name the exchange ""
EMPTY_MOVES = 50  # successive requests of a move for which the queue has no message: some seconds


def queue_path(call: Call) -> tuple[str, ...]:
    """Return the queue's API path; the unix socket's also deletes and purges exclusive queues of other connections."""
    return ("warren", "queues") if call.is_local else ("queues",)


def purge_queue(call: Call) -> None:
    try:
        call.api.delete(*queue_path(call), call.vhost_name, call.arguments[0], "contents")
    except NotFound:
        raise CommandError(DATA, "Object (queue, stream, exchange, etc) was not found", bare=True) from None


def delete_queue(call: Call) -> str:
    name, vhost = call.arguments[0], call.vhost_name
    queue = call.find("queues", vhost, name)
    if queue is None:
        raise CommandError(USAGE, "Queue not found")
    conditions: dict[str, str] = {option: "true" for option in ("if-empty", "if-unused") if call.flag(option)}
    try:
        deleted = call.api.delete(*queue_path(call), vhost, name, query=conditions)
    except APIError as error:
        if error.status != 400:
            raise
        state = "in use" if "in use" in error.reason else "not empty"
        raise CommandError(UNAVAILABLE, f"Queue '{name}' in vhost '{vhost}' is {state}") from None
    ready = deleted["messages_ready"] if isinstance(deleted, dict) else queue.get("messages_ready", 0)
    return f"Queue was successfully deleted with {ready} ready messages"


def move_messages(call: Call) -> str:
    """Move messages by requests of a tenth of a second each. Raises CommandError (64, 69)."""
    queue, destination = call.arguments
    found = call.find("queues", call.vhost_name, queue)
    if found is None:
        raise CommandError(USAGE, "Queue not found")
    kind, name = ("exchange", destination or DEFAULT_EXCHANGE) if call.flag("to-exchange") else ("queue", destination)
    if call.find(f"{kind}s", call.vhost_name, name) is None:  # an empty queue asks the broker for no move
        raise CommandError(USAGE, f"Destination {kind} not found")
    if kind == "queue":
        target = {"queue": destination}
    elif "routing-key" in call.options:
        target = {"exchange": destination, "routing_key": call.text("routing-key")}
    else:
        target = {"exchange": destination}
    ready: int = found.get("messages_ready", 0)
    wanted = min(call.integer("count", ready), ready)
    moved = empty = 0
    problem = ""
    while moved < wanted and not problem and empty < EMPTY_MOVES:
        body = {"destination": target, "count": wanted - moved}
        try:
            answer = call.api.post("warren", "queues", call.vhost_name, queue, "move", body=body)
        except APIError as error:
            if not moved:
                raise
            problem = error.reason
            break
        moved, problem = moved + answer["moved"], answer["problem"]
        empty = 0 if answer["moved"] else empty + 1
        if not answer["messages_ready"]:
            break
    if problem:
        raise CommandError(UNAVAILABLE, f"Moved {moved} messages, then: {problem}")
    return f"Moved {moved} messages"


def close(call: Call, found: list[Item], reason: str) -> None:
    """Close the connections, except those that are closed already."""
    for one in found:
        try:
            call.api.delete("connections", one["name"], headers={"X-Reason": header(reason)})
        except NotFound:
            continue


def header(text: str) -> str:
    """Return the text in the form of an HTTP header."""
    return text.replace("\r", " ").replace("\n", " ").encode("utf-8", "surrogateescape").decode("latin-1")


def close_connection(call: Call) -> None:
    """Close a connection; an unknown pid is no error, as in RabbitMQ."""
    wanted, reason = call.arguments
    close(call, [one for one in connections(call) if wanted in (one["name"], one.get("pid"), pid(one["name"]))], reason)


def close_all_user_connections(call: Call) -> None:
    user, reason = call.arguments
    close(call, [one for one in connections(call) if one.get("user") == user], reason)


def close_all_connections(call: Call) -> str:
    """Close the connections to a virtual host, or all. Raises CommandError (64, 65)."""
    (reason,) = call.arguments
    if not call.flag("global"):
        call.vhost()
    limit, delay_ms = call.integer("limit", 0), call.integer("per-connection-delay", 0)
    found = [one for one in connections(call) if call.flag("global") or one.get("vhost") == call.vhost_name]
    found = found[: limit or None]
    for one in found:
        close(call, [one], reason)
        time.sleep(delay_ms / 1000)
    return f"Closed {len(found)} connections"


def federation_status(call: Call) -> Rows:
    found = call.list_of(*(DOWN if call.flag("only-down") else DOWN[:1]))  # empty for a broker without federation
    columns: Columns[Item] = {name: partial(cell, column=name) for name in COLUMNS}
    return select_columns(columns, call.arguments, COLUMNS, found)


def cell(link: Item, column: str) -> object:
    if column == "last_changed":
        day, _, clock = str(link.get("timestamp", "")).partition(" ")  # the API writes the hour without a leading zero
        return f"{day} {clock:0>8}" if clock else ""
    if column == "next_attempt_at":
        return local_time(datetime.fromisoformat(link[column]).timestamp()) if column in link else ""
    value = link.get(column)
    return "" if value is None else value


def restart_federation_link(call: Call) -> None:
    """Raises CommandError (69) for an unknown link."""
    id = call.arguments[0]
    for link in call.list_of("federation-links"):
        if link["id"] == id:
            call.api.delete("federation-links", "vhost", link["vhost"], id, link["node"], "restart")
            return
    raise CommandError(UNAVAILABLE, "Link with the given ID was not found")


def export_definitions(call: Call) -> Item:
    found: Item = call.api.get("definitions")
    return found


NO_JSON = ("failed to parse JSON", "failed_to_parse_json")


def import_definitions(call: Call) -> str | None:
    """Import definitions; the unix socket returns what was skipped, otherwise only the node's log has it."""
    skip = call.flag("skip-if-unchanged")
    query = {"leave-out": "true"} if call.flag("leave-out") else {}
    if skip and not call.is_local:
        raise CommandError(USAGE, "warrenctl: --skip-if-unchanged goes by the control socket, not by --url", bare=True)
    try:
        if call.is_local:
            query |= {"skip-if-unchanged": str(skip).lower()}
            answer = call.api.request("POST", ("warren", "definitions"), call.arguments[0], query)
            return "\n".join(answer["skipped"]) or None
        call.api.request("POST", ("definitions",), call.arguments[0], query)
    except APIError as error:
        if error.status != 400 or not error.reason.startswith(NO_JSON):
            raise
        raise CommandError(DATA, f"Failed to deserialise input (format: JSON) (error: {error.reason})") from None
    return None


def set_cluster_name(call: Call) -> None:
    call.api.put("cluster-name", body={"name": call.arguments[0]})


def enable_feature_flag(call: Call) -> None:
    """Raises CommandError (64) for an unknown feature flag."""
    name = call.arguments[0]
    known = [flag["name"] for flag in call.api.get("feature-flags")]
    if name not in (*known, "all"):
        raise CommandError(USAGE, f"This feature flag is not supported by node {call.node}")
    for each in known if name == "all" else [name]:
        call.api.put("feature-flags", each, "enable", body={"name": each})


COMMANDS: dict[str, Handler] = {
    "close_all_connections": close_all_connections,
    "close_all_user_connections": close_all_user_connections,
    "close_connection": close_connection,
    "delete_queue": delete_queue,
    "enable_feature_flag": enable_feature_flag,
    "export_definitions": export_definitions,
    "federation_status": federation_status,
    "import_definitions": import_definitions,
    "move_messages": move_messages,
    "purge_queue": purge_queue,
    "restart_federation_link": restart_federation_link,
    "set_cluster_name": set_cluster_name,
}
