"""The import of a definitions document.

An import is all or nothing, unlike RabbitMQ's. So it is planned first: each step is checked as if the steps before it
had been done, and the plan is carried out only if all its steps can be done. Clients may be served between any two
steps; a change of theirs can make a step of the plan impossible.

An import adds and replaces, and deletes nothing. Existing exchanges and queues stay as they are; all other existing
objects are replaced. Names that begin with `amq.` are reserved, and are left out with a warning.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ...amqp.errors import AMQPError, Invalid, OperatorError, unknown_vhost
from ...amqp.field_table import Table
from ...amqp.limits import RESERVED
from ..access.passwords import SHA256, has_password
from ..access.permissions import Permission, TopicPermission
from ..access.users import User, validate_user
from ..exchanges.exchange import check_exchange_arguments
from ..exchanges.exchange_type import ExchangeType
from ..messages.binding import Destination
from ..messages.journal_port import ROOM
from ..metadata.patterns import LONGEST_BYTES, Pattern
from ..metadata.queue_types import CLASSIC, QUEUE_TYPE_ALIASES
from ..metadata.records import StoredUser, StoredVHost
from ..metadata.unfinished_import import UNFINISHED_IMPORT, is_completed, marks_of, with_mark
from ..node.node import Node, check_metadata
from ..policies.limits import NAME, VHOST_LIMITS, user_limits
from ..policies.parameters import POLICY
from ..policies.policies import OPERATOR_POLICY
from ..queues.arguments import check_queue_arguments, check_queue_type, with_queue_type
from ..vhost.emissions import EmissionQueue
from ..vhost.vhost import EVENT, PREDECLARED, VHost, destination_type
from .entry import LONG_ENTRY, TEXT_LIMIT, DefinitionEntry, entries, map_of
from .exporter import Document, is_internal
from .release import release

MD5 = "rabbit_password_hashing_md5"
VERSION_LENGTH = 100  # characters of a version that are read
SHA256_SINCE = (3, 6)  # before that version, hashes without an algorithm are MD5
ALGORITHMS = {  # LavinMQ's names -> RabbitMQ's
    "SHA256": SHA256,
    "SHA512": "rabbit_password_hashing_sha512",
    "MD5": MD5,
}
KINDS = ("queue", "exchange")
PATTERNS = {"permissions": ("configure", "write", "read"), "topic_permissions": ("write", "read")}
LONG_PATTERN = 512  # characters
Wait = Callable[[Callable[[], None]], object]
"""A function that calls its argument once something has happened."""
Plan = Callable[[DefinitionEntry], Callable[[], None] | None]
"""A function that plans the import of an entry, and may return the check whether the caller may do that."""
LINES_LENGTH, LINE_LENGTH = 1 << 20, 1_000  # characters of all lines that are kept, and of each


class Permits:
    """The rights of the caller of an import: all. Methods of subclasses raise the error that refuses the import."""

    def check_user(self, old: StoredUser, new: StoredUser) -> None:
        """Check the replacement of a user."""

    def check_parameter(self, fields: dict[str, object]) -> None:
        """Check the entry of a parameter."""


PERMITS_ALL = Permits()


class FirstLines:
    """Lines of which the first ones are kept, up to LINES_LENGTH characters. `count` is the number of all."""

    __slots__ = ("count", "_kept", "_left")

    def __init__(self) -> None:
        self.count = 0
        self._kept: list[str] = []
        self._left = LINES_LENGTH

    def add(self, line: str) -> None:
        if self.count == len(self._kept) and self._left >= LINE_LENGTH:
            self._kept.append(line[:LINE_LENGTH])
            self._left -= len(self._kept[-1])
        self.count += 1

    def lines(self) -> list[str]:
        """Return the lines that are kept, and how many others there are."""
        more = self.count - len(self._kept)
        return [*self._kept, f"and {more} more"] if more else list(self._kept)


@dataclass(slots=True, eq=False)
class VHostPreview:
    """A virtual host as it will be after the import."""

    name: str
    existing: VHost | None  # the existing virtual host, or None
    default_queue_type: str
    max_queues: int | None  # in force; a limit of the document applies afterwards, so that any export can be imported
    exchanges: dict[str, ExchangeType] = field(default_factory=dict)
    queues: dict[str, str] = field(default_factory=dict)  # names and types
    skipped: set[tuple[str, str]] = field(default_factory=set)  # kind and name of each object that is left out

    def __str__(self) -> str:
        return f"vhost '{self.name}'"

    def has(self, kind: str, name: str) -> bool:
        if kind == "exchange":
            return self.type_of(name) is not None
        return name in self.queues or (self.existing is not None and name in self.existing.queues)

    def type_of(self, exchange: str) -> ExchangeType | None:
        """Return the type of an existing or a planned exchange, or None."""
        existing = self.existing.exchanges.get(exchange) if self.existing is not None else None
        return existing.type if existing is not None else self.exchanges.get(exchange)

    def destination_type(self, kind: str, name: str) -> str:
        """Return `exchange`, or the type of an existing or planned queue."""
        existing = self.existing.queues.get(name) if self.existing is not None and kind == "queue" else None
        if existing is not None:
            return destination_type(existing)
        return self.queues[name] if kind == "queue" else kind

    def check_queues(self) -> None:
        """Raise Invalid if there would be more queues than the limit allows."""
        count = len(self.existing.queues) if self.existing is not None else 0
        if self.queues and self.max_queues is not None and count + len(self.queues) > self.max_queues:
            raise Invalid(
                f'Adding {len(self.queues)} queue(s) to virtual host "{self.name}" would exceed the limit of '
                f"{self.max_queues} queue(s).\n\nThis virtual host currently has {count} queue(s) defined.\n\n"
                "Import aborted!"
            )


@dataclass(eq=False, repr=False)
class DefinitionsImport:
    """An import: `check` is run to its end, then `carry_out`. Both process one entry at each step.

    With `leave_out` entries with an error, and those that need them, are left out with a warning. `permits` are
    checked before, and again when users and parameters are imported. Raises Invalid if it is no definitions document,
    Unknown if the virtual host does not exist.
    """

    _node: Node
    _document: Any  # checked to be a Document
    vhost: str | None = None  # into which the document is imported, or None for all of it
    leave_out: bool = False
    _permits: Permits = PERMITS_ALL

    def __post_init__(self) -> None:
        self.places: set[object] = set()  # virtual hosts that its entries name; None for one that is missing
        self.without_password: list[str] = []  # the users with a hash that is no password's, who cannot log in
        self._warnings = FirstLines()
        self._failures = FirstLines()
        self._steps: deque[Callable[[], object]] = deque()
        self._vhosts: dict[str, VHostPreview] = {}
        self._new = {"vhost": 0, "exchange": 0, "queue": 0}  # counts
        self._binds = False  # anything that is not bound yet
        self._users: dict[str, StoredUser] = {}
        self._parameters: dict[str, set[tuple[str, str]]] = {}  # new ones, by component
        self._parameters_of: Counter[tuple[str, str]] = Counter()  # their number, by component and virtual host
        self._emissions: EmissionQueue | None = None  # of the last binding
        self._wait: Wait | None = None  # of the present step
        if not isinstance(self._document, dict):
            raise Invalid("definitions should be a map")
        if self.vhost is not None and self.vhost not in self._node.vhosts:
            raise unknown_vhost(self.vhost)
        self._algorithm = algorithm_of(self._document)

    @property
    def warnings(self) -> list[str]:
        """A line for each entry that is left out, and for each user of `without_password`; of very many the first."""
        return self._warnings.lines()

    @property
    def declares(self) -> bool:
        """Whether the plan has virtual hosts, exchanges, queues or bindings that do not exist yet."""
        return self._binds or any(self._new.values())

    def carry_out(self) -> Iterator[Wait | None]:
        """Carry out the plan, without steps that are impossible now.

        Yields a `Wait` that should be awaited before the next step if the caller can, or None.
        """
        while self._steps:
            step = self._steps.popleft()
            self._carry_out(step)
            if self._wait is not None:
                yield self._wait
                self._carry_out(step)
                self._wait = None
            yield None
            while self._emissions is not None and self._emissions.full:
                yield self._emissions.when_enqueued if self._node.journal.room() != ROOM else None
                self._emissions.advance()
        self._node.pump()

    def _carry_out(self, step: Callable[[], object]) -> None:
        try:
            step()
        except (OperatorError, AMQPError) as error:
            self._failures.add(error.text)

    def _waits(self, wait: Wait) -> bool:
        """Have the present step done again after this, and return True; or False if it has waited already."""
        if self._wait is not None:
            return False
        self._wait = wait
        return True

    def check_failures(self) -> None:
        """Raise Invalid if an entry could not be imported."""
        if self._failures.count:
            raise Invalid(
                f"{self._failures.count} definitions were not imported, as the broker has changed during the import; "
                f"the first: {self._failures.lines()[0]}"
            )

    def check(self) -> Iterator[None]:
        """Check the document and plan its import. Raises Invalid, with the error and its entry."""
        whole: tuple[tuple[str, Plan], ...] = (
            ("users", self._user),
            ("vhosts", self._vhost),
            ("permissions", self._permission),
            ("topic_permissions", self._topic_permission),
            ("global_parameters", self._global_parameter),
        )
        parts: tuple[tuple[str, Plan], ...] = (
            ("exchanges", self._exchange),
            ("policies", self._policy),
            ("parameters", self._parameter),
            ("queues", self._queue),
            ("bindings", self._binding),
        )
        for section, plan in parts if self.vhost is not None else whole + parts:
            names_place = (section, plan) in parts
            for entry in entries(self._document, section):
                item = DefinitionEntry(section, entry)
                for compile_one in compilations(*patterns_of(section, item.fields)):
                    with suppress(Invalid):  # the plan finds what is wrong with it
                        compile_one()
                    yield
                if names_place:
                    given = item.fields.get("vhost")
                    self.places.add(given if isinstance(given, str) else None)
                if section == "parameters":
                    self._permits.check_parameter(item.fields)
                try:
                    if item.check_size() > LONG_ENTRY:
                        yield
                    permit = plan(item)
                except (OperatorError, AMQPError) as error:
                    refused = item.refused(error)
                    if not self.leave_out:
                        raise refused from None
                    self._warnings.add(f"{section}: {' '.join(refused.text[:LINE_LENGTH].split())}: left out")
                else:
                    if permit is not None:
                        permit()
                yield
        for vhost in self._vhosts.values():
            vhost.check_queues()
            yield

    def release(self) -> Iterator[None]:
        """Free the plan, with its parts of the document, in steps."""
        yield from release(self._steps, self._users, self.places, self._parameters, self._parameters_of)
        while self._vhosts:
            _, vhost = self._vhosts.popitem()
            yield from release(vhost.skipped, vhost.exchanges, vhost.queues)

    def _preview(self, item: DefinitionEntry) -> VHostPreview:
        """Return the virtual host of an entry."""
        return self._preview_of(self.vhost if self.vhost is not None else item.text("vhost"))

    def _preview_of(self, name: str) -> VHostPreview:
        planned = self._vhosts.get(name)
        if planned is None:
            existing = self._node.vhosts.get(name)
            if existing is None:
                raise Invalid(f'Please create virtual host "{name}" prior to importing definitions.')
            limit = self._node.limits.vhost_queues(name)
            planned = self._vhosts[name] = VHostPreview(name, existing, existing.metadata.default_queue_type, limit)
        return planned

    def _skip(self, what: str, reason: str) -> None:
        self._warnings.add(f"{what} is left out: {reason}")

    # Users and permissions

    def _user(self, item: DefinitionEntry) -> Callable[[], None] | None:
        name = item.text("name")
        given = item.text("hashing_algorithm", self._algorithm)
        algorithm = ALGORITHMS.get(given, given)
        password_hash = item.text("password_hash", "", TEXT_LIMIT).encode("utf-8", "surrogateescape")
        if "password" in item.fields and "password_hash" in item.fields:
            raise Invalid("both_password_and_password_hash_are_provided")
        if "password" in item.fields:
            algorithm, password_hash = SHA256, self._hashed(item.text("password", None, TEXT_LIMIT))
        old = self._planned_user(name)
        limits = old.limits if old is not None else {}
        if "limits" in item.fields:
            limits = user_limits(name, item.map("limits"))
        stored = validate_user(StoredUser(name, password_hash, item.tags(), algorithm, limits))
        if stored.password_hash and not has_password(stored.password_hash, algorithm):
            self.without_password.append(name)
            self._warnings.add(f"user '{name}' cannot log in: the password hash is not one of {algorithm}")
        self._users[name] = stored
        self._steps.append(partial(self._put_user, stored))
        return partial(self._permits.check_user, old.stored(), stored) if old is not None else None

    def _planned_user(self, name: str) -> User | None:
        """Return the user as the entries before leave it."""
        stored = self._users.get(name)
        return User(stored) if stored is not None else self._node.users.get(name)

    def _hashed(self, password: str) -> bytes:
        """Return a hash by one of RabbitMQ's algorithms, computed at once. Raises Invalid if the rules refuse it."""
        users = self._node.users
        users.rules.check(password)
        assert users.hashing is not None, "every node that operators can reach has it"
        hashes: list[bytes] = []
        users.hashing.hash(password.encode("utf-8", "surrogateescape"), SHA256, hashes.append)
        return hashes[0]

    def _permission(self, item: DefinitionEntry) -> None:
        user, vhost = self._known_user(item), self._preview(item).name
        given = [item.text(key, None, TEXT_LIMIT) for key in ("configure", "write", "read")]
        Permission(*given)
        self._steps.extend(compilations(given))
        self._steps.append(partial(self._node.users.set_permission, user, vhost, *given))

    def _topic_permission(self, item: DefinitionEntry) -> None:
        user, vhost, exchange = self._known_user(item), self._preview(item).name, item.text("exchange")
        given = [item.text(key, None, TEXT_LIMIT) for key in ("write", "read")]
        TopicPermission(user, vhost, *given)
        self._steps.extend(compilations(given, {"username": user, "vhost": vhost}))
        self._steps.append(partial(self._node.users.set_topic_permission, user, vhost, exchange, *given))

    def _known_user(self, item: DefinitionEntry) -> str:
        name = item.text("user")
        if self._planned_user(name) is None:
            raise Invalid(f'User "{name}" does not exist')
        return name

    # Virtual hosts and parameters

    def _vhost(self, item: DefinitionEntry) -> None:
        name = item.text("name")
        limits = item.map("limits")
        if limits:  # before anything is planned: if they are refused, so is the virtual host
            self._check_parameter(name, VHOST_LIMITS, NAME, limits)
        given = DefinitionEntry("vhosts", {**item.fields, **item.map("metadata")})
        type_ = given.text("default_queue_type", "")
        type_ = QUEUE_TYPE_ALIASES.get(type_, type_)
        description, tags = given.text("description", "", TEXT_LIMIT), given.tags(TEXT_LIMIT)
        protected = given.flag("protected_from_deletion", False)
        check_metadata(StoredVHost(name, description, tags, type_, protected))
        if name in self._vhosts or name in self._node.vhosts:
            planned = self._preview_of(name)
            planned.default_queue_type = type_ or planned.default_queue_type
            self._steps.append(
                partial(
                    self._node.update_vhost,
                    name,
                    description if "description" in given.fields else None,
                    tags if "tags" in given.fields else None,
                    type_ or None,
                    protected if "protected_from_deletion" in given.fields else None,
                )
            )
        else:
            self._node.limits.check_vhost(name, self._new["vhost"])
            self._new["vhost"] += 1
            planned = self._vhosts[name] = VHostPreview(name, None, type_ or self._node.default_queue_type, None)
            predeclared = [(exchange, kind) for exchange, kind, _ in PREDECLARED]
            predeclared += [(EVENT, "topic")] if name == self._node.default_vhost else []
            for exchange, kind in predeclared:
                planned.exchanges[exchange] = self._node.registry.create(kind, exchange, Table.EMPTY)
            self._new["exchange"] += len(predeclared)
            self._steps.append(partial(self._add_vhost, name, description, tags, type_))
            if protected:
                self._steps.append(partial(self._node.update_vhost, name, protected=True))
        if limits:
            self._put(planned, VHOST_LIMITS, NAME, limits)

    def _policy(self, item: DefinitionEntry) -> None:
        value = {
            "pattern": item.value("pattern"),
            "definition": map_of(item.value("definition")),
            "priority": item.fields.get("priority", 0),
            "apply-to": item.fields.get("apply-to", "all"),
        }
        self._put(self._preview(item), POLICY, item.text("name", None, TEXT_LIMIT), value)

    def _parameter(self, item: DefinitionEntry) -> None:
        component = item.text("component", None, TEXT_LIMIT)
        if component == POLICY:
            raise Invalid("policies may not be set using this method")
        value = item.value("value")
        if component == OPERATOR_POLICY and isinstance(value, dict) and "definition" in value:
            value = {**value, "definition": map_of(value["definition"])}
        permit = partial(self._permits.check_parameter, item.fields)
        self._put(self._preview(item), component, item.text("name", None, TEXT_LIMIT), value, permit)

    def _put(
        self, vhost: VHostPreview, component: str, name: str, value: object, permit: Callable[[], None] = lambda: None
    ) -> None:
        parameters = self._node.parameters
        new, key = self._check_parameter(vhost.name, component, name, value), (vhost.name, name)
        if key not in new and parameters.get(vhost.name, component, name) is None:
            new.add(key)
            self._parameters_of[component, vhost.name] += 1
        if component == VHOST_LIMITS:
            vhost.max_queues = None
        self._steps.append(partial(self._put_parameter, permit, vhost.name, component, name, value))

    def _check_parameter(self, vhost: str, component: str, name: str, value: object) -> set[tuple[str, str]]:
        """Check a parameter, and return the new ones of its component. Raises Invalid."""
        new = self._parameters.setdefault(component, set())
        again = (vhost, name) in new
        planned = len(new) - again, self._parameters_of[component, vhost] - again
        self._node.parameters.check(vhost, component, name, value, *planned)
        return new

    def _global_parameter(self, item: DefinitionEntry) -> None:
        name, value = item.text("name", None, TEXT_LIMIT), item.value("value")
        if is_internal(name):
            self._skip(f"global parameter '{name}'", "each broker has its own")
            return
        parameters = self._node.parameters
        self._steps.append(partial(parameters.put_global, name, parameters.check_global(name, value)))

    # Exchanges, queues and bindings

    def _is_reserved(self, vhost: VHostPreview, kind: str, name: str) -> bool:
        """Return whether an object is left out, because its name is reserved."""
        reserved = name == "" or name.startswith(RESERVED)
        if reserved:
            vhost.skipped.add((kind, name))
            self._skip(f"{kind} '{name}' in {vhost}", "its name is reserved")
        return reserved

    def _exchange(self, item: DefinitionEntry) -> None:
        vhost, name, type_ = self._preview(item), item.object_name("name"), item.text("type")
        arguments = item.arguments()
        flags = (item.flag("durable", True), item.flag("auto_delete", False), item.flag("internal", False))
        if self._is_reserved(vhost, "exchange", name) or vhost.has("exchange", name):
            return
        made = self._node.registry.create(type_, name, arguments)
        check_exchange_arguments(arguments, f"exchange '{name}' in {vhost}")
        self._node.limits.check_exchange(vhost.name, name, self._new["exchange"])
        self._new["exchange"] += 1
        vhost.exchanges[name] = made
        self._steps.append(partial(self._declare_exchange, vhost.name, name, type_, *flags, arguments))

    def _queue(self, item: DefinitionEntry) -> None:
        vhost, name, arguments = self._preview(item), item.object_name("name"), item.arguments()
        durable, auto_delete = item.flag("durable", True), item.flag("auto_delete", False)
        given = item.text("type", "")
        type_ = QUEUE_TYPE_ALIASES.get(given, given)
        if self._is_reserved(vhost, "queue", name) or vhost.has("queue", name):
            return
        if type_ not in ("", CLASSIC):  # which is the type without an argument
            arguments = with_queue_type(arguments, type_)
        elif not type_ and durable and not auto_delete:
            arguments = with_queue_type(arguments, vhost.default_queue_type)
        where = f"queue '{name}' in {vhost}"
        check_queue_arguments(arguments, where)
        check_queue_type(arguments, where, durable=durable, exclusive=False, auto_delete=auto_delete)
        self._node.replication.check(arguments, where)
        self._node.limits.check_all_queues(name, self._new["queue"])
        self._new["queue"] += 1
        vhost.queues[name] = arguments.text("x-queue-type") or CLASSIC
        self._steps.append(partial(self._declare_queue, vhost.name, name, durable, auto_delete, arguments))

    def _binding(self, item: DefinitionEntry) -> None:
        vhost, arguments = self._preview(item), item.arguments()
        source, name = item.object_name("source"), item.object_name("destination")
        key = item.text("routing_key", "")
        kind = item.text("destination_type")
        if kind not in KINDS:
            raise Invalid(f"destination_type should be one of queue, exchange, actually was {kind}")
        if source == "":
            self._skip(f"binding of the default exchange to {kind} '{name}' in {vhost}", "each queue has its own")
            return
        for end_kind, end in (("exchange", source), (kind, name)):
            if vhost.has(end_kind, end):
                continue
            if (end_kind, end) not in vhost.skipped:
                raise Invalid(f"no {end_kind} '{end}' in {vhost}")
            self._skip(
                f"binding of exchange '{source}' to {kind} '{name}' in {vhost}", f"there is no {end_kind} '{end}'"
            )
            return
        type_ = vhost.type_of(source)
        assert type_ is not None
        type_.validate_binding(key, arguments, vhost.destination_type(kind, name))
        if not self._binds:
            existing = vhost.existing
            self._binds = existing is None or not existing.has_binding(source, kind, name, key, arguments)
        self._steps.append(partial(self._bind, vhost.name, source, kind, name, key, arguments))

    # Steps. A new object waits for the deletion of an earlier one with its name. Users and parameters may have changed
    # since the check, so the caller's permits are checked again.

    def _put_user(self, stored: StoredUser) -> None:
        old = self._node.users.get(stored.name)
        if old is not None:
            self._permits.check_user(old.stored(), stored)
        self._node.users.put(stored)

    def _put_parameter(self, permit: Callable[[], None], vhost: str, component: str, name: str, value: object) -> None:
        permit()
        self._node.parameters.put(vhost, component, name, value)

    def _add_vhost(self, name: str, description: str, tags: tuple[str, ...], default_queue_type: str) -> None:
        node = self._node
        if not (node.is_ending(name) and self._waits(partial(node.when_dropped, name))):
            node.add_vhost(name, description, tags, default_queue_type)

    def _waits_for_unbinding(self, vhost: VHost, kind: str, name: str) -> bool:
        return (kind, name) in vhost.unbinding_jobs and self._waits(partial(vhost.when_unbound, kind, name))

    def _vhost_of(self, name: str) -> VHost:
        """Return the virtual host. Raises Unknown if it was deleted since the plan was made."""
        vhost = self._node.vhosts.get(name)
        if vhost is None:
            raise unknown_vhost(name)
        return vhost

    def _declare_exchange(
        self, vhost: str, name: str, type_: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> None:
        target = self._vhost_of(vhost)
        if self._waits_for_unbinding(target, "exchange", name):
            return
        if name not in target.exchanges:  # it may have been declared since the plan was made
            target.declare_exchange(
                name,
                type_,
                durable=durable,
                auto_delete=auto_delete,
                internal=internal,
                arguments=arguments,
                user=self._node.events.actor,
            )

    def _declare_queue(self, vhost: str, name: str, durable: bool, auto_delete: bool, arguments: Table) -> None:
        target = self._vhost_of(vhost)
        if self._waits_for_unbinding(target, "queue", name):
            return
        if name not in target.queues:
            target.declare_queue(name, durable=durable, auto_delete=auto_delete, arguments=arguments, as_is=True)

    def _bind(self, vhost: str, source: str, kind: str, name: str, key: str, arguments: Table) -> None:
        target = self._vhost_of(vhost)
        end: Destination = target.queue(name) if kind == "queue" else target.exchange(name)
        target.bind(source, end, key, arguments)
        self._emissions = target.emissions_of(source)


def patterns_of(section: str, fields: Mapping[str, object]) -> tuple[list[object], dict[str, str]]:
    """Return the patterns of an entry of permissions, which are not checked yet, and their variables."""
    variables = {"username": str(fields.get("user")), "vhost": str(fields.get("vhost"))}
    return [fields.get(key) for key in PATTERNS.get(section, ())], variables if section == "topic_permissions" else {}


def compilations(texts: Iterable[object], variables: dict[str, str] | None = None) -> list[Callable[[], object]]:
    """Return a step for each long pattern, because one may take 20 ms to compile. The last ones compiled are kept."""
    long = [text for text in texts if isinstance(text, str) and LONG_PATTERN <= len(text) <= LONGEST_BYTES]
    return [partial(Pattern, text, variables) for text in long]


def begin_import(node: Node, digest: str, vhost: str | None) -> None:
    """Store the mark of an import (`metadata.unfinished_import`), before a part of its document is stored."""
    value = node.parameters.get_global(UNFINISHED_IMPORT)
    node.parameters.set_global(UNFINISHED_IMPORT, with_mark(value, digest, vhost, node.clock.timestamp_s()))


def end_import(node: Node, digest: str, plan: DefinitionsImport) -> None:
    """Clear the mark of an import that has ended, and those of earlier ones of the same document that it completes."""
    parameters = node.parameters
    marks = marks_of(parameters.get_global(UNFINISHED_IMPORT))
    left = [mark for mark in marks if not is_completed(mark, digest, plan.vhost, plan.places)]
    if left:
        parameters.set_global(UNFINISHED_IMPORT, left)
    elif marks:
        parameters.clear_global(UNFINISHED_IMPORT)


def algorithm_of(document: Document) -> str:
    """Return the algorithm of hashes without one, by the version that exported them."""
    version = document.get("rabbitmq_version") or document.get("rabbit_version")
    if not isinstance(version, str):
        return SHA256
    numbers = [int(part) for part in version[:VERSION_LENGTH].split(".")[:2] if part.isascii() and part.isdigit()]
    return MD5 if numbers and tuple(numbers) < SHA256_SINCE else SHA256


def import_definitions(node: Node, document: object, vhost: str | None = None, digest: str = "") -> list[str]:
    """Import a document, or nothing; return a line for each entry that is left out. Raises Invalid, Unknown.

    `digest` is that of the text (`metadata.unfinished_import`).
    """
    plan = DefinitionsImport(node, document, vhost)
    for work in (plan.check(), plan.carry_out()):
        deque(work, maxlen=0)
    plan.check_failures()
    end_import(node, digest, plan)
    return plan.warnings
