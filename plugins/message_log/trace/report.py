"""The result of a trace as JSON values and as text: each message, its state in each queue, and its events."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from ..file_format import schema
from ..file_format.printable import IS, count, printable
from .search import Row, Trace, order

Values = dict[str, Any]

WAITING, UNACKED = "ready", "unacknowledged"  # states of a message in a queue that it has not left

_LEFT = {
    schema.ACK: "acknowledged",
    schema.FED_OUT: "taken by a federation link",
    schema.EXPIRE: "expired",
    schema.DEAD_LETTER: "dead-lettered",
}
_DETAILS = (
    *("queue", "reason", "consumer_tag", "user", "conn_id", "chan", "link", "upstream", "identity", "hops"),
    *("no_ack", "redelivered", "routed", "lat_us"),
)


def describe(name: str, result: Trace) -> Values:
    """Return the content of the JSON; times are in UTC."""
    messages = [_message(rows) for rows in order(result.rows)]
    return {
        "id": name,
        "messages": messages,
        "complete": result.complete,
        "files": result.files,
        "skipped_files": result.skipped,
    }


def _message(rows: list[Row]) -> Values:
    first = next((row for row in rows if row["event"] in (schema.PUBLISH, schema.FED_IN)), rows[0])

    def known(name: str) -> Any:
        return next((row[name] for row in rows if row[name] is not None), None)

    return {
        "node": first["node"],
        "boot_id": first["boot_id"],
        "msg_seq": first["msg_seq"],
        "copy_of": known("source_seq"),
        "message_id": known("message_id"),
        "correlation": known("correlation"),
        "vhost": first["vhost"],
        "exchange": known("exchange"),
        "routing_key": known("routing_key"),
        "size": known("size"),
        "persistent": known("persistent"),
        "headers": dict(known("headers") or []),
        "queues": {row["queue"]: _state(rows, row["queue"]) for row in rows if row["queue"] is not None},
        "events": [_event(row) for row in rows],
    }


def _event(row: Row) -> Values:
    details = {name: row[name] for name in _DETAILS if row[name] not in (None, "", False)}
    return {"at": _time(row["ts_us"]), "row": row["row"], "event": row["event"], **details}


def _state(rows: Iterable[Row], queue: str) -> str:
    """Return the state of a message in a queue at the end of the log."""
    state = WAITING
    for row in rows:
        event = row["event"]
        if row["queue"] != queue:
            continue
        if event in _LEFT:
            state = _LEFT[event]
        elif event == schema.DROP:
            state = f"dropped ({row['reason']})"
        elif event == schema.DELIVER:
            state = "delivered without acknowledgement" if row["no_ack"] else UNACKED
        elif event in (schema.ENQUEUE, schema.REQUEUE):
            state = WAITING
    return state


def _time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def text(traced: Values) -> str:
    return "\n".join(map(printable, _lines(traced)))


def _lines(traced: Values) -> Iterator[str]:
    for index, message in enumerate(traced["messages"]):
        if index:
            yield ""
        yield from _message_lines(message)
    if not traced["complete"]:
        yield ""
        yield f"There are more messages with this name; {len(traced['messages'])} are shown."
    if traced["skipped_files"]:
        yield ""
        yield f"{count(len(traced['skipped_files']), 'file', IS)} not of the export, or damaged, and not read."


def _message_lines(message: Values) -> Iterator[str]:
    named = f", message_id {message['message_id']}" if message["message_id"] is not None else ""
    copied = f", a copy of {message['boot_id']}/{message['copy_of']}" if message["copy_of"] else ""
    number = f"{message['boot_id']}/{message['msg_seq']}"
    yield f"{number} in {message['node']}, virtual host {message['vhost']}{named}{copied}"
    for event in message["events"]:
        yield f"  {event['at'][:10]} {event['at'][11:-1]}  {_sentence(event, message)}"
    for queue, state in message["queues"].items():
        yield f"  => queue {_quoted(queue)}: {state}"


def _sentence(event: Values, message: Values) -> str:
    """Return an event in words."""
    name, queue, reason = event["event"], _quoted(event.get("queue")), event.get("reason")
    consumer = f"consumer {_quoted(event['consumer_tag'])}" if event.get("consumer_tag") else "basic.get"
    who = f" by {event['user']}" if event.get("user") else ""
    where = f" on {event['conn_id']} channel {event.get('chan', '')}".rstrip() if event.get("conn_id") else ""
    why = f" ({reason})" if reason else ""
    if name in (schema.PUBLISH, schema.FED_IN):
        exchange = _quoted(message["exchange"] or "(default)")
        origin = "published" if name == schema.PUBLISH else f"brought by the link from {_quoted(event.get('link'))}"
        routed = event.get("routed", 0)
        routes = f"routed to {count(routed, 'queue')}" if not reason else f"entered no queue ({reason})"
        return f"{origin}{who}{where} to exchange {exchange} with key {_quoted(message['routing_key'] or '')}: {routes}"
    if name == schema.DELIVER:
        again = ", redelivered" if event.get("redelivered") else ""
        automatic = ", no acknowledgement expected" if event.get("no_ack") else ""
        to = "a federation link" if event.get("link") else consumer
        return f"delivered from {queue} to {to}{who}{where}{again}{automatic}"
    publisher = "link" if event.get("link") else "publisher"
    sentences = {
        schema.RETURN: f"returned to the publisher{who}",
        schema.CONFIRM: f"{'refused: nack' if reason else 'confirmed'} to the {publisher}{who}",
        schema.ENQUEUE: f"entered {queue}{why}",
        schema.ACK: f"acknowledged in {queue}{who}{where}",
        schema.FED_OUT: f"acknowledged in {queue} by a federation link",
        schema.NACK: f"rejected in {queue}{who}{where}",
        schema.REQUEUE: f"requeued in {queue}{why}",
        schema.EXPIRE: f"expired in {queue}",
        schema.DROP: f"dropped from {queue}{why}",
        schema.DEAD_LETTER: f"dead-lettered from {queue}{why}",
        schema.UNROUTED: f"the dead letter of {queue} entered no queue",
    }
    return sentences.get(name, f"{name} in {queue}")  # of a damaged file


def _quoted(text: str | None) -> str:
    return f'"{text or ""}"'
