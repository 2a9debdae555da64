"""The plan of a migration: the definitions for the target, and the omitted ones with their reasons. Pure."""

import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from warren.broker.core.policies.policy_keys import DEDUPLICATE, MULTI_HOP

from .brokers import CLUSTER_ID, WARREN, Document, QueueName

RESERVED = "amq."
INTERNAL = "federation: "  # of the names of queues and exchanges that the links of other brokers have declared
PURPOSE = "x-internal-purpose"
QUEUE_TYPE = "x-queue-type"
FEDERATION = ("federation-upstream", "federation-upstream-set")
OWN_GLOBALS = ("cluster_name", CLUSTER_ID)
KNOWN_COMPONENTS = {"vhost-limits", "operator_policy", "policy", *FEDERATION}
HASHES = {f"rabbit_password_hashing_{name}" for name in ("md5", "sha256", "sha512")}
OWN_KEYS = {DEDUPLICATE, MULTI_HOP}  # of policies of Warren, which RabbitMQ refuses
PLACE = re.compile(r' \((\w+): "(.*?)"(?: / (\w+): "(.*?)")?(?: / \w+: "(.*?)")?\)$', re.DOTALL)  # in a refused import
SECTIONS = {
    "vhost": "vhosts", "user": "users", "exchange": "exchanges", "queue": "queues", "policy": "policies",
    "component": "parameters",
}  # fmt: skip
TOPOLOGY = ("vhosts", "queues", "exchanges", "bindings")


class Target(NamedTuple):
    """The target, as far as the plan depends on it: its exchange types, and the user who logs in there."""

    product: str
    exchange_types: Collection[str]
    user: str


@dataclass
class Plan:
    """The definitions for the target."""

    document: Document
    queues: list[QueueName] = field(default_factory=list)  # the queues that get a link
    users: set[str] = field(default_factory=set)  # of the target afterwards
    changes: list[str] = field(default_factory=list)  # intended differences
    missing: list[str] = field(default_factory=list)  # objects that the target cannot have

    def topology(self) -> Document:
        """Return only virtual hosts, exchanges, queues and bindings, which an import never changes."""
        return {name: part for name, part in self.document.items() if name in TOPOLOGY or isinstance(part, str)}

    def leave_out(self, error: str) -> bool:
        """Leave out the object that the target has refused with this error. Returns whether the error names one."""
        place = PLACE.search(error)
        if place is None:
            return False
        kind, first, second, name, third = place.groups()
        section = SECTIONS.get(second or kind, "")
        names = {"vhost": first} if second else {"name": first}
        names |= {"component": name, "name": third} if second == "component" else {"name": name} if second else {}
        part = self.document.get(section, [])
        left = [item for item in part if any(item.get(key) != value for key, value in names.items())]
        if len(left) == len(part):
            return False
        self.document[section] = left
        self.users -= {name for name in (first,) if section == "users"}
        self.missing.append(" ".join(error.split()))
        self.drop_orphans()
        self.queues = [queue for queue in self.queues if section != "queues" or queue != (first, name)]
        return True

    def compare(self, queues: Collection[Document], exchanges: Collection[Document]) -> None:
        """Note objects that exist at the target with other properties, which no import changes.

        They stay in the plan: messages move into the queue that exists, and bindings lead to the exchange that exists.
        """
        for section, existing in (("queues", queues), ("exchanges", exchanges)):
            there = {(row["vhost"], row["name"]): properties_of(section, row) for row in existing}
            for item in self.document.get(section, []):
                present, properties = there.get((item["vhost"], item["name"])), properties_of(section, item)
                if present is None or present == properties:
                    continue
                names = sorted(name for name in {*present, *properties} if present.get(name) != properties.get(name))
                with_ = ", ".join(f"{name} {as_text(present.get(name))}" for name in names)
                not_ = ", ".join(as_text(properties.get(name)) for name in names)
                self.missing.append(f"{section[:-1]} {place(item)}: exists there with {with_}, not {not_}")

    def drop_orphans(self) -> None:
        """Leave out bindings with an end, and permissions of users, that the target does not get."""
        ends = {
            "queue": {(item["vhost"], item["name"]) for item in self.document.get("queues", [])},
            "exchange": {(item["vhost"], item["name"]) for item in self.document.get("exchanges", [])},
        }

        def has(binding: Document, kind: str, end: str) -> bool:
            name = binding[end]
            return (binding["vhost"], name) in ends[kind] or (kind == "exchange" and name.startswith(RESERVED))

        document = self.document
        bindings = [one for one in document.get("bindings", []) if has(one, "exchange", "source")]
        document["bindings"] = [one for one in bindings if has(one, one["destination_type"], "destination")]
        for section in ("permissions", "topic_permissions"):
            document[section] = [one for one in document.get(section, []) if one["user"] in self.users]


def plan(definitions: Document, target: Target, vhosts: Collection[str] = ()) -> Plan:
    """Make the plan from a broker's definitions, for these virtual hosts or all of them."""
    made = Plan({name: part for name, part in definitions.items() if isinstance(part, str)})
    for section, items in definitions.items():
        if isinstance(items, list):
            chosen = [item for item in items if not vhosts or in_vhosts(section, item, vhosts)]
            made.document[section] = [item for item in chosen if takes(made, section, item, target)]
    made.queues = [QueueName(item["vhost"], item["name"]) for item in made.document.get("queues", [])]
    made.users = {item["name"] for item in made.document.get("users", [])} | {target.user}
    made.drop_orphans()
    return made


def in_vhosts(section: str, item: Document, vhosts: Collection[str]) -> bool:
    """Return whether an object belongs to the virtual hosts. Users belong to all, global parameters to brokers."""
    return section == "users" or item.get("name" if section == "vhosts" else "vhost") in vhosts


def takes(made: Plan, section: str, item: Document, target: Target) -> bool:
    """Return whether the target gets an object. If not, the reason is noted."""
    change, missing = RULES[section](item, target) if section in RULES else ("", "")
    made.changes += [change] if change else []
    made.missing += [missing] if missing else []
    return not change and not missing


def properties_of(section: str, item: Document) -> Document:
    """Return the properties that two declarations of one queue or exchange have in common."""
    arguments = dict(item.get("arguments") or {})
    type_ = item.get("type") or "classic"
    if section == "queues":
        type_ = arguments.pop(QUEUE_TYPE, type_)
    return {"type": type_, "durable": item["durable"], "auto_delete": item["auto_delete"], **arguments}


def as_text(value: object) -> str:
    return value if isinstance(value, str) else "none" if value is None else json.dumps(value)


def place(item: Document) -> str:
    return f"'{item['name']}' in vhost '{item['vhost']}'"


def user_rule(item: Document, target: Target) -> tuple[str, str]:
    if item["name"] == target.user:
        return f"user '{item['name']}' stays as it is there, since this command uses it", ""
    algorithm = str(item.get("hashing_algorithm", ""))
    if target.product != WARREN and algorithm and algorithm not in HASHES:
        return "", f"user '{item['name']}': {target.product} cannot check a password hashed by {algorithm}"
    return "", ""


def global_rule(item: Document, target: Target) -> tuple[str, str]:
    if item["name"] in OWN_GLOBALS:
        return f"global parameter '{item['name']}': each broker has its own", ""
    return "", ""


def parameter_rule(item: Document, target: Target) -> tuple[str, str]:
    component = item["component"]
    if component in FEDERATION:
        return f"{component} {place(item)}: set it when the old broker is gone, or both take part in it", ""
    if target.product == WARREN and component not in KNOWN_COMPONENTS:
        return "", f"{component} {place(item)}: {WARREN} has none"
    return "", ""


def policy_rule(item: Document, target: Target) -> tuple[str, str]:
    own = sorted(OWN_KEYS & set(item["definition"])) if target.product != WARREN else []
    return ("", f"policy {place(item)}: {target.product} does not know {' and '.join(own)}") if own else ("", "")


def queue_rule(item: Document, target: Target) -> tuple[str, str]:
    what = f"queue {place(item)}"
    arguments: dict[str, Any] = item.get("arguments") or {}
    if item["name"].startswith(RESERVED):
        return f"{what}: its name is the broker's own", ""
    if is_internal(item):
        return f"{what}: links of another broker declare it again where they lead to", ""
    if item.get("auto_delete"):
        return f"{what}: it is deleted with its last consumer, who declares it again", ""
    type_ = arguments.get(QUEUE_TYPE) or item.get("type", "classic")
    if target.product == WARREN and type_ not in ("classic", "quorum"):
        return "", f"{what}: {WARREN} has no {type_}s"
    return "", ""


def exchange_rule(item: Document, target: Target) -> tuple[str, str]:
    if is_internal(item):
        return f"exchange {place(item)}: links of another broker declare it again where they lead to", ""
    if item["type"] not in target.exchange_types:
        return "", f"exchange {place(item)}: {target.product} there has no type {item['type']}"
    return "", ""


def is_internal(item: Document) -> bool:
    """Return whether links of other brokers have declared a queue or an exchange."""
    return item["name"].startswith(INTERNAL) or PURPOSE in (item.get("arguments") or {})


Rule = Callable[[Document, Target], tuple[str, str]]
RULES: dict[str, Rule] = {
    "users": user_rule,
    "global_parameters": global_rule,
    "parameters": parameter_rule,
    "policies": policy_rule,
    "queues": queue_rule,
    "exchanges": exchange_rule,
}
