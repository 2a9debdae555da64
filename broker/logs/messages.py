"""The messages of log events, in RabbitMQ's words, for which people and tools search.

An event without a phrase is shown as its name and fields. The fields are those that `session`, `net` and `app` report.
"""

from collections.abc import Callable, Iterable, Mapping

Fields = Mapping[str, object]
Phrase = Callable[[Fields], str]

DEFAULT = "default"
BELOW = ": please report it, with the traceback"
STARS = "*" * 58
FRAMED = ("alarm_set",)  # events whose second line has a frame in text
OMITTED = ("process", "category", "node")  # the first begins the line, the others never differ


class Shown(dict[str, object]):
    """The fields of an event for a format; missing ones are None."""

    def __missing__(self, name: str) -> None:
        return None


def printable(value: object) -> str:
    """Replace unprintable characters: peers choose some logged texts, which must not contain terminal escapes."""
    text = value if isinstance(value, str) else str(value)
    if text.isprintable():
        return text
    return "".join([char if char.isprintable() else repr(char)[1:-1] for char in text])


def phrase(event: str, fields: Fields) -> str:
    """Return the message of an event, of one or several lines, without terminal escapes."""
    known = PHRASES.get(event)
    shown = Shown({name: printable(value) if isinstance(value, str) else value for name, value in fields.items()})
    if known is not None:
        return known.format_map(shown) if isinstance(known, str) else known(shown)
    words = [printable(event)]
    words += [f"{name}={_value(value)}" for name, value in shown.items() if name not in OMITTED]
    return " ".join(words)


def lines_of(event: str, fields: Fields) -> list[str]:
    """Return the lines of the message of an event in a log of text."""
    lines = phrase(event, fields).split("\n")
    return [lines[0], STARS, f"*** {lines[1]} ***", STARS] if event in FRAMED else lines


def category_of(event: str) -> str:
    """Return the category of an event, as in log.<category>.level."""
    return CATEGORIES.get(event, DEFAULT)


def _value(value: object) -> str:
    text = printable(value if isinstance(value, str) else repr(value))
    return repr(text) if not text or " " in text else text


def _connection(fields: Fields) -> str:
    """Return the connection in brackets, with the known ones of its fields."""
    parts = [str(fields.get("connection", ""))]
    if fields.get("client_name"):
        parts[0] += f" - {fields['client_name']}"
    if "vhost" in fields:
        parts.append(f"vhost: '{fields['vhost'] or 'none'}'")
    if "user" in fields:
        parts.append(f"user: '{fields['user']}'")
    if "state" in fields:
        parts.append(f"state: {fields['state']}")
    if "duration_s" in fields:
        parts.append(f"duration: '{duration(fields['duration_s'])}'")
    return f"({', '.join(parts)})"


def duration(seconds: object) -> str:
    """Format a duration as RabbitMQ does: `1M, 2s`."""
    assert isinstance(seconds, int)
    left, parts = seconds, []
    for unit, size in (("D", 86_400), ("H", 3600), ("M", 60)):
        if left >= size:
            parts.append(f"{left // size}{unit}")
            left %= size
    return ", ".join([*parts, f"{left}s"])


def _opened(fields: Fields) -> str:
    name = f" - {fields['client_name']}" if fields.get("client_name") else ""
    who = f"user '{fields.get('user')}' authenticated and granted access to vhost '{fields.get('vhost')}'"
    return f"connection {fields.get('connection')}{name}: {who}"


def _closing(reason: str = "") -> Phrase:
    def closing(fields: Fields) -> str:
        after = reason or str(fields.get("reason", ""))
        return f"closing AMQP connection {_connection(fields)}" + (f":\n{after}" if after else "")

    return closing


def _failed(fields: Fields) -> str:
    return f"Error on AMQP connection {fields.get('process')} {_connection(fields)}:\n{_caused('connection', fields)}"


def _channel_failed(fields: Fields) -> str:
    name = f"{fields.get('process')} {_connection(fields)}, channel {fields.get('channel')}"
    return f"Channel error on connection {name}:\n{_caused('channel', fields)}"


def _caused(kind: str, fields: Fields) -> str:
    error, _, text = str(fields.get("reason", "")).partition(" - ")
    return f"operation {fields.get('operation', 'none')} caused a {kind} exception {error.lower()}: {text}"


def _build(fields: Fields) -> str:
    reason = fields.get("reason")
    return f"Warren runs in pure Python: {reason}" if reason else "Warren runs compiled"


def _not_listening(fields: Fields) -> str:
    service = f"{fields['service']}: " if fields.get("service") else ""
    line = f"{service}cannot listen at {fields.get('address')}: {fields.get('reason')}"
    return f"{line}; {fields.get('option')} chooses another address"


def _not_opened(fields: Fields) -> str:
    return f"cannot use the {'data folder' if fields.get('data') else 'store'}: {fields.get('reason')}"


def _reloaded(fields: Fields) -> str:
    changes, waiting = fields.get("changes") or "nothing has changed", fields.get("needs_restart")
    return f"configuration reloaded: {changes}" + (f"; needs a restart: {waiting}" if waiting else "")


def _size(number: object) -> str:
    """Format bytes, in decimal units as the keys of limits have them."""
    assert isinstance(number, int)
    unit, divisor = next((each for each in (("GB", 10**9), ("MB", 10**6)) if number >= each[1]), ("kB", 1000))
    return f"{number / divisor:.1f} {unit}"


def _alarm_set(fields: Fields) -> str:
    line = f"{fields.get('resource')} resource limit alarm set on node {fields.get('node')}"
    limit = fields.get("limit_bytes")
    if fields.get("free_bytes") is not None:
        line += f": {_size(fields.get('free_bytes'))} are free at {fields.get('disk')}, the limit is {_size(limit)}"
    elif fields.get("used_bytes") is not None:
        line += f": {_size(fields.get('used_bytes'))} are used, the limit is {_size(limit)}"
    return f"{line}.\nPublishers will be blocked until this alarm clears"


def _listed(form: str, name: str) -> Phrase:
    """Return the phrase of a format, in which a list of texts is joined."""
    return lambda fields: form.format_map(Shown({**fields, name: ", ".join(map(str, _texts(fields.get(name))))}))


def _texts(value: object) -> Iterable[object]:
    return value if isinstance(value, list | tuple) else ()


def _http(fields: Fields) -> str:
    left_out = fields.get("left_out")
    return f"HTTP server: {fields.get('what')}" + (f" ({left_out} such lines were left out)" if left_out else "")


def _sentence(start: str, *names: str) -> Phrase:
    """Return the phrase that begins with `start`, and has the values of these fields after colons."""
    return lambda fields: ": ".join([start, *(str(fields[name]) for name in names if fields.get(name))])


def _linked(what: str) -> Phrase:
    """Return the phrase of a federation link that did `what`, a format of the fields, to its upstream."""

    def linked(fields: Fields) -> str:
        line = f"Federation {fields.get('object')} {what.format_map(fields)} '{fields.get('upstream_object')}'"
        line += f" of upstream '{fields.get('upstream')}' on {fields.get('uri') or 'no URI'}"
        reason = fields.get("reason")
        return f"{line}: {reason}" if reason else line

    return linked


PHRASES: dict[str, str | Phrase] = {  # formats of the fields, or functions of them
    "connection_accepted": "accepting AMQP connection {connection}",
    "connection_opened": _opened,
    "connection_closed": _closing(),
    "connection_lost": _closing(),
    "handshake_timeout": _closing("handshake timeout"),
    "bad_header": lambda fields: (
        f"{_closing()(fields)}" + ("" if fields.get("reason") else f":\nbad header {fields.get('header')}")
    ),
    "login_refused": lambda fields: (
        f"Error on AMQP connection {fields.get('process')} {_connection(fields)}:\n{fields.get('reason')}"
    ),
    "connection_closing": _failed,
    "channel_closing": _channel_failed,
    "listener_started": lambda fields: (
        f"started {'TLS (SSL)' if fields.get('tls') else 'TCP'} listener on {fields.get('address')}"
    ),
    "ready": "Server startup complete; {plugins} plugins started.",
    "build": _build,
    "alarm_set": _alarm_set,
    "alarm_cleared": "{resource} resource limit alarm cleared on node {node}",
    "http_login_refused": "HTTP access denied: {reason}",
    "default_user_generated": (
        "The new user '{user}' has a random password, which was printed once on the standard output"
    ),
    "started": "Time to start Warren: {ms} ms",
    "stopping": "the broker is stopping",
    "stopped": "the broker has stopped",
    "cannot_listen": _not_listening,
    "cannot_start": "the service {service} cannot start: {reason}",
    "cannot_open_data": _not_opened,
    "data_in_use": "{reason}; stop that one, or keep the data of this one in another folder (--data)",
    "cannot_use_certificates": _sentence("cannot listen with TLS", "reason"),
    "certificate_expired": "the certificate {certfile} expired on {expired}: clients that verify it refuse it",
    "certificates_loaded": _listed("the certificates were loaded again: {files}", "files"),
    "certificates_not_loaded": _sentence("the certificates were not loaded again, those in use stay", "reason"),
    "cannot_load_definitions": _sentence("cannot load the definitions", "reason"),
    "definitions_loaded": "the definitions of {path} were imported",
    "definitions_unchanged": "the definitions of {path} are those that were imported before",
    "cannot_load_plugin": _sentence("cannot load a plugin", "reason"),
    "configuration": _sentence("configuration", "what"),
    "configuration_reloaded": _reloaded,
    "configuration_not_reloaded": _sentence("the configuration was not reloaded, the one in effect stays", "reason"),
    "definitions": _sentence("definitions", "what"),
    "cannot_accept": _sentence("no connection can be accepted for a second", "reason"),
    "connection_limit": (
        "{closed} connections were refused or closed, the last from {source}: at most {most} {limit} may be open"
    ),
    "few_descriptors": "the limit of open files is {descriptors}, enough for {connections} connections: {advice}",
    "too_few_descriptors": "the limit of open files is {descriptors}, and a broker needs {needed}: {advice}",
    "malformed_login": "a login with the mechanism {mechanism} is malformed: {reason}",
    "secret_updated": _sentence("a client has renewed its secret", "reason"),
    "password_not_checked": "a password was not checked, for lack of memory or threads",
    "permission_takes_too_long": _listed(
        "permissions of the user '{user}' in vhost '{vhost}' take too long, and refuse everything until they are"
        " replaced: {patterns}",
        "patterns",
    ),
    "user_cannot_log_in": "the user '{user}' cannot log in with a password: {reason}",
    "tls_handshake_failed": "the TLS handshake with {peer} failed: {reason}",
    "no_control_socket": _sentence("warrenctl can reach this broker by --url only: it has no unix socket", "reason"),
    "not_durable": "messages are not safe: {means}; {advice}",
    "quorum_queue_not_replicated": "the quorum queue '{queue}' in vhost '{vhost}' is on {guarantee}: {means}",
    "quorum_queues_not_replicated": "{queues} quorum queues are on {guarantee}: {means}",
    "dead_letters_wait": (
        "dead letters of the queue '{queue}' in vhost '{vhost}' wait, and are tried again: the exchange '{exchange}'"
        " does not exist or has no route, or a queue behind it is full"
    ),
    "system_messages_dropped": (
        "messages of the exchange '{exchange}' are dropped: they come faster than its queues take them, or the disk is"
        " full"
    ),
    "vhost_default_refused": "the new virtual host '{vhost}' lacks the default '{name}' of the configuration: {reason}",
    "shards_refused": "the exchange '{exchange}' in vhost '{vhost}' lacks shards of its policy: {reason}",
    "log_damaged": _sentence("the journal is damaged", "what"),
    "cannot_read_log": _sentence("the journal cannot be read", "what"),
    "not_restored": _sentence("an object was not restored", "what"),
    "not_stored": _sentence("the last messages were not stored", "reason"),
    "not_owner": _sentence("another broker has taken over the store, so this one ends at once", "reason"),
    "confirmed_messages_lost": "{reason} (it has {server_has} of {confirmed})",
    "output_dropped": _sentence("output to clients was dropped", "reason"),
    "weak_guarantee": "a confirmed message is on {guarantee}: {means}",
    "standby": "this broker is a standby: {owner} has the store {store}",
    "taking_over": "this broker takes the store over from {owner}",
    "storage_failed": _sentence("the journal cannot be written, so the broker ends at once", "reason"),
    "storage_delayed": _sentence("the journal cannot be written now, and is tried again", "reason"),
    "store_unavailable": _sentence("the store cannot be reached, and is tried again", "reason"),
    "takeover_waits": (
        "the store is not taken over yet: the server has not confirmed that,"
        " perhaps because no synchronous standby server answers"
    ),
    "store_available": "the store can be reached again",
    "http": _http,
    "scrape_not_taken": "a scrape of the metrics was given up after {sent_bytes} bytes: its client reads too slowly",
    "message_log_ended": _sentence("the export of the message log has ended", "reason"),
    "message_log_restarted": "the export of the message log runs again, and lacks {lost_records} records",
    "message_log_not_written": _sentence("the last records of the message log are not written", "reason"),
    "backup_begun": "a backup has begun",
    "backup_ended": lambda fields: f"a backup has ended {'whole' if fields.get('whole') else 'before it was whole'}",
    "systemd_not_notified": _sentence("systemd was not notified", "reason"),
    "event_loop_held": (
        "the event loop did nothing else for {ms} ms, {processor_ms} ms of the processor; it served {last_served}"
    ),
    "full_collection": "a full garbage collection of {objects} objects took {ms} ms",
    "internal_error": f"a fault of the broker{BELOW}",
    "job_failed": f"the job '{{job}}' has failed{BELOW}",
    "queue_failed": f"the queue '{{queue}}' in vhost '{{vhost}}' was not served, and is tried again{BELOW}",
    "task_failed": f"the task {{task}} has failed{BELOW}",
    "tasks_not_ended": _listed("these tasks did not end in time: {tasks}", "tasks"),
    "http_log_not_written": _sentence("the log of HTTP requests cannot be written", "reason"),
    "federation_connected": _linked("connected to"),
    "federation_disconnected": _linked("disconnected from"),
    "federation_not_connected": _linked("did not connect to"),
    "federation_not_removed": _linked("could not delete its own objects at"),
    "federation_message_rejected": _linked("rejected a message from"),
    "federation_same_cluster_name": _linked(
        "loses messages, because the cluster name '{cluster_name}' is also that of"
    ),
    "federation_queue_shared": _linked("shares the queue '{queue}' with a broker of the same cluster name at"),
    "federation_not_listening": _linked("gets no events of"),
    "federation_uri_invalid": "Federation {link} has a URI that cannot be used: {reason}",
    "federation_file_unusable": "Federation cannot use a file of {uri} for the user '{user}': {reason}",
    "federation_suspended": _sentence("all federation links wait", "reason"),
    "federation_resumed": "all federation links run again",
    "federation_link_limit": (
        "{refused} federation links do not start, because {limit} run already (warren.federation_link_limit)"
    ),
}
CATEGORIES: dict[str, str] = {
    **dict.fromkeys(
        (
            *("connection_accepted", "connection_opened", "connection_closed", "connection_lost"),
            *("connection_closing", "connection_gone_before_header", "handshake_timeout", "bad_header"),
            *("login_refused", "malformed_login", "secret_updated", "tls_handshake_failed"),
        ),
        "connection",
    ),
    **dict.fromkeys(
        (
            *("federation_connected", "federation_disconnected", "federation_not_connected", "federation_not_removed"),
            *("federation_uri_invalid", "federation_queue_shared", "federation_same_cluster_name"),
            *("federation_message_rejected", "federation_file_unusable", "federation_link_limit"),
        ),
        "federation",
    ),
    "channel_closing": "channel",
    "permission_takes_too_long": "user",
}
