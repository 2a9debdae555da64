"""The comparison of two answers: rules for values that vary by nature, and the remaining differences.

The rules, in this order:

1. Objects in a list are those of the comparison alone (their `vhost`, `name` or `user` begins with PREFIX), as other
   clients may use the reference; they are paired by their identity (IDENTITY), other lists by place.
2. A field whose name is in VARYING is compared by its type alone; integers and floats count as one type there.
3. Spaces between words count as one, and those behind a comma as none, as RabbitMQ breaks lines within some texts and
   not within others.
4. Names that each broker has of its own (its node, a connection, a port) are replaced by a word in braces, as are
   Erlang's process identifiers, dates and times.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

PREFIX = "compare"
IDENTITY = (
    *("vhost", "user", "component", "name", "exchange", "source", "destination_type", "destination"),
    *("routing_key", "properties_key", "consumer_tag", "protocol", "port"),
)
OCCASIONAL = ("idle_since",)  # fields that are present only at times

# Field names: memory, time, load, versions and identifiers, which differ between any two brokers.
VARYING = frozenset(
    (
        *("rate", "avg", "avg_rate", "samples", "timestamp", "idle_since", "connected_at", "since", "uptime"),
        *("memory", "message_bytes", "message_bytes_ram", "message_bytes_persistent", "message_bytes_ready"),
        *("message_bytes_unacknowledged", "message_bytes_paged_out", "reductions", "recv_cnt", "send_cnt", "send_pend"),
        *("recv_oct", "send_oct", "password_hash", "ok", "exported_at", "rabbitmq_version", "rabbit_version"),
        *("management_version", "product_version", "product_name", "erlang_version", "erlang_full_version", "version"),
        *("cluster_name", "statistics_db_event_queue", "peer_port", "port", "pid", "os_pid", "backing_queue_status"),
        *("auth_attempts", "auth_attempts_failed", "auth_attempts_succeeded", "host", "channel_max"),
        *("minor_gcs", "fullsweep_after", "max_heap_size", "min_bin_vheap_size", "min_heap_size"),
        *("description", "desc", "doc_url", "peer_host", "log_files", "config_files", "db_dir", "data_dir"),
        *("messages_ram", "messages_ready_ram", "messages_unacknowledged_ram", "consumer_utilisation"),
        *("fd_total", "fd_used", "sockets_total", "sockets_used", "proc_total", "proc_used", "mem_limit", "mem_used"),
        *("disk_free", "disk_free_limit", "run_queue", "processors", "context_switches", "gc_num"),
        "gc_bytes_reclaimed",
    )
)
PATTERNS = (
    (re.compile(r"<\d+\.\d+\.\d+>"), "{pid}"),
    (re.compile(r"<rmq4@localhost\.[\d.]+>|<rabbit@here\.[\d.]+>"), "{pid}"),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d{1,2}:\d\d:\d\d(\.\d+)?([+-]\d\d:\d\d|Z)?"), "{time}"),
    (re.compile(r"\d+\.\d+\.\d+\.\d+:\d+ -> \d+\.\d+\.\d+\.\d+:(\d+|\{amqp_port\})"), "{connection}"),
    (re.compile(r"~[\w-]{6}$|~[0-9a-f]{16}$"), "~{hash}"),
)


@dataclass(frozen=True)
class Difference:
    """A difference at one place. `subject` is the route or command, `place` the part of the answer."""

    subject: str
    place: str
    warren: str
    reference: str


def differences(subject: str, place: str, warren: object, reference: object) -> Iterator[Difference]:
    """Compare two normalised values at every place below `place`."""
    name = place.rpartition(".")[2].removesuffix("[]")
    if isinstance(warren, dict) and isinstance(reference, dict):
        if place.rpartition(".")[2] in VARYING:
            return
        for key in sorted((warren.keys() | reference.keys()).difference(OCCASIONAL)):
            below = f"{place}.{key}"
            if key not in warren:
                yield Difference(subject, below, "no such field", shown(reference[key]))
            elif key not in reference:
                yield Difference(subject, below, shown(warren[key]), "no such field")
            else:
                yield from differences(subject, below, warren[key], reference[key])
    elif isinstance(warren, list) and isinstance(reference, list):
        if name not in VARYING:
            yield from differences_of_lists(subject, f"{place}[]", warren, reference)
    elif name in VARYING:
        if type_of(warren) != type_of(reference):
            yield Difference(subject, place, f"type {type_of(warren)}", f"type {type_of(reference)}")
    elif isinstance(warren, str) and isinstance(reference, str) and plain_text(warren) == plain_text(reference):
        return
    elif type(warren) is not type(reference) or warren != reference:
        yield Difference(subject, place, shown(warren), shown(reference))


def differences_of_lists(subject: str, place: str, warren: list[Any], reference: list[Any]) -> Iterator[Difference]:
    """Compare two lists: by identity if they hold objects, by index if they hold plain values."""
    ours, theirs = by_identity(warren), by_identity(reference)
    for key in sorted(ours.keys() | theirs.keys()):
        if key not in ours:
            yield Difference(subject, f"{place} {key}".rstrip(), "not listed", shown(theirs[key]))
        elif key not in theirs:
            yield Difference(subject, f"{place} {key}".rstrip(), shown(ours[key]), "not listed")
        else:
            yield from differences(subject, place, ours[key], theirs[key])


def by_identity(items: list[Any]) -> dict[str, Any]:
    """Return the items by their identity."""
    found: dict[str, Any] = {}
    for number, item in enumerate(items):
        if isinstance(item, dict):
            named = [str(item[name]) for name in IDENTITY if name in item and name not in VARYING]
            key = "/".join(named) or str(number)
        elif isinstance(item, str):
            key = item
        else:
            key = f"#{number}"
        found[key if key not in found else f"{key} #{number}"] = item
    return found


def normalised(value: Any, names: Mapping[str, str]) -> Any:
    """Return a document with a broker's own names replaced by words in braces."""
    if isinstance(value, dict):
        return {text_of(key, names): normalised(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [normalised(item, names) for item in value]
    return text_of(value, names) if isinstance(value, str) else value


def text_of(text: str, names: Mapping[str, str]) -> str:
    for word, name in names.items():
        if name:
            text = text.replace(name, "{" + word + "}")
    for pattern, word in PATTERNS:
        text = pattern.sub(word, text)
    return text


def own(value: Any) -> Any:
    """Return a list, or a page of one, without the objects of other clients."""
    if isinstance(value, dict) and isinstance(value.get("items"), list):
        return {**value, "items": own(value["items"])}
    if not isinstance(value, list):
        return value
    return [item for item in value if not isinstance(item, dict) or is_own(item)]


def is_own(item: dict[str, Any]) -> bool:
    return any(str(item.get(name, "")).startswith(PREFIX) for name in ("vhost", "name", "user"))


def type_of(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return {str: "string", list: "list", dict: "object"}.get(type(value), "null")


def plain_text(text: str) -> str:
    return re.sub(r",\s+", ",", re.sub(r" +", " ", text))


def shown(value: object) -> str:
    """Return a short form of a value for the report."""
    text = repr(value)
    return text if len(text) <= 160 else text[:157] + "..."
