"""Links of federation, as its service tells of them; a broker without it has none (spec/federation.md 10)."""

from __future__ import annotations

from operator import itemgetter
from typing import Protocol, runtime_checkable

from .answers import UNAVAILABLE, Refused, Rows
from .call import Call, Handler
from .columns import Columns, listed
from .links import COLUMNS, local_time

SERVICE = "federation"
UP = ("running", "starting")


@runtime_checkable
class Links(Protocol):
    """What is asked of the service. A row has plain values and no credentials."""

    def status(self) -> list[dict[str, object]]: ...

    def restart(self, id: str) -> bool:
        """Whether there is such a link."""


def links_of(call: Call) -> Links | None:
    service = call.host.services.get(SERVICE)
    return service if isinstance(service, Links) else None


def federation_status(call: Call) -> Rows:
    links = links_of(call)
    rows = links.status() if links is not None else []
    if call.flag("only-down"):
        rows = [row for row in rows if row["status"] not in UP]
    columns: Columns[dict[str, object]] = {name: itemgetter(name) for name in COLUMNS}
    return listed(columns, call.arguments, COLUMNS, map(described_link, rows))


def described_link(row: dict[str, object]) -> dict[str, object]:
    """By RabbitMQ's names; what does not hold of a link is an empty string."""
    kind, changed_s = str(row["type"]), row["changed_s"]
    told: dict[str, object] = dict.fromkeys(COLUMNS, "")
    told |= {column: row[column] for column in COLUMNS if column in row}
    told |= {kind: row["name"], f"upstream_{kind}": row["upstream_name"]}
    told["last_changed"] = local_time(changed_s) if isinstance(changed_s, (int, float)) else ""
    next_s = row.get("next_attempt_s")
    told["next_attempt_at"] = local_time(next_s) if isinstance(next_s, (int, float)) else ""
    return {column: "" if value is None else value for column, value in told.items()}


def restart_federation_link(call: Call) -> None:
    """Raises Refused (69) where there is no such link."""
    links = links_of(call)
    if links is None or not links.restart(call.arguments[0]):
        raise Refused(UNAVAILABLE, "Link with the given ID was not found")


COMMANDS: dict[str, Handler] = {
    "federation_status": federation_status,
    "restart_federation_link": restart_federation_link,
}
