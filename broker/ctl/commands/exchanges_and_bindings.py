"""Commands for exchanges, their types and bindings."""

from ..call import Call
from ..command import COLUMNS, LISTING, MONITORING, NODES, V, columns, field, table_of
from ..formats import Rows

EXCHANGE = columns("name type durable auto_delete internal policy", arguments=table_of("arguments"))


BINDING = {
    "source_name": field("source"),
    "source_kind": lambda binding: "exchange",
    "destination_name": field("destination"),
    "destination_kind": field("destination_type"),
    "routing_key": field("routing_key"),
    "arguments": table_of("arguments"),
}


def list_exchange_types(call: Call) -> Rows:
    """List exchange types; Warren's unix socket also returns the distribution that each comes from."""
    types = sorted(call.get("overview")["exchange_types"], key=lambda one: str(one["name"]))
    names = ["name", "provided_by"] if call.api.is_local else ["name"]
    return Rows(names, ([one[name] for name in names] for one in types))


# fmt: off
MONITORING(f"list_exchanges {V} {COLUMNS}: Lists exchanges", "Listing exchanges for vhost {vhost} ...",
           lambda call: call.list_in_vhost("exchanges/{vhost}"), columns=EXCHANGE, default="name type")
MONITORING(f"list_bindings {V} {COLUMNS}: Lists all bindings in a vhost", "Listing bindings for vhost {vhost}...",
           lambda call: call.list_in_vhost("bindings/{vhost}"), columns=BINDING)
NODES(f"list_exchange_types {LISTING}: Lists exchange types", "Listing exchange types ...", list_exchange_types)
