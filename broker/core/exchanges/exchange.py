"""An exchange: flags, arguments, bindings, policy, and the type that routes for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from ...amqp.errors import PreconditionFailed
from ...amqp.field_table import Table, same, type_name
from ..messages.binding import Binding, Destination
from ..queues.arguments import EXCHANGE_ARGUMENTS, check_same_flags, inequivalent_argument
from ..queues.queue_settings import NO_POLICY
from .exchange_type import ExchangeType

if TYPE_CHECKING:
    from ..metadata.policy import Policy

ALTERNATE = ("alternate-exchange", "x-alternate-exchange")  # RabbitMQ's name, and LavinMQ's


class Exchange(Destination):
    """An exchange: flags, arguments, bindings, policy, and the type that routes for it.

    `outgoing` are the bindings whose source it is, `incoming` those whose destination it is, by `binding_key`.

    `number` identifies messages that its type stores in the journal; 0 if none of them survive a restart.
    `declared_by` is the name of the user who declared it, empty for the broker itself.
    """

    __slots__ = (
        *("vhost", "type", "type_name", "durable", "auto_delete", "internal", "arguments", "policy", "effective"),
        *("number", "declared_by", "incoming", "outgoing", "publish_in", "publish_out"),
    )
    kind: ClassVar[str] = "exchange"

    def __init__(
        self,
        vhost: str,
        name: str,
        type_: ExchangeType,
        type_name: str,
        *,
        durable: bool,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Table = Table.EMPTY,
    ) -> None:
        super().__init__(name)
        self.vhost = vhost
        self.type = type_
        self.type_name = type_name
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.arguments = arguments
        self.policy: Policy | None = None
        self.effective: Mapping[str, object] = NO_POLICY
        self.incoming: dict[bytes, Binding] = {}
        self.outgoing: dict[bytes, Binding] = {}
        self.number = 0
        self.declared_by = ""
        self.publish_in = 0
        self.publish_out = 0  # messages put in queues: one that is routed to three counts three times

    def __str__(self) -> str:
        return f"exchange '{self.name}' in vhost '{self.vhost}'"

    @property
    def alternate(self) -> str | None:
        """The name of the alternate exchange, which gets messages that this exchange cannot route, or None."""
        for key in ALTERNATE:
            name = self.arguments.text(key)
            if name is not None:
                return name
        ruled = self.effective.get(ALTERNATE[0])
        return ruled if isinstance(ruled, str) else None

    def check_same(self, type_name: str, arguments: Table, *, durable: bool, auto_delete: bool, internal: bool) -> None:
        """Raise PreconditionFailed (406) if a repeated declaration is not equivalent."""
        flags: tuple[tuple[str, object, object], ...] = (
            ("type", type_name, self.type_name),
            ("durable", durable, self.durable),
            ("auto_delete", auto_delete, self.auto_delete),
            ("internal", internal, self.internal),
        )
        check_same_flags(str(self), flags)
        for key in (ALTERNATE[0], *EXCHANGE_ARGUMENTS, *self.type.equivalence_arguments):
            if not same(arguments.get(key), self.arguments.get(key)):
                raise inequivalent_argument(key, str(self), arguments, self.arguments)

    def configure(self, policy: Policy | None, effective: Mapping[str, object]) -> None:
        """Apply this policy from now on. The caller clears cached routes."""
        self.policy, self.effective = policy, effective


def check_exchange_arguments(arguments: Table, where: str) -> None:
    """Raise PreconditionFailed (406) for invalid arguments. `where` is "exchange 'x' in ..."."""
    for key in ALTERNATE:
        value = arguments.get(key)
        if value is not None and value[0] != "S":
            raise PreconditionFailed(f"invalid type '{type_name(value)}' for arg '{key}' in {where}")
    for key, check in EXCHANGE_ARGUMENTS.items():
        value = arguments.get(key)
        if value is not None:
            check(key, value, where)


def binding_key(source: str, destination: Destination, routing_key: str, arguments: Table) -> bytes:
    """Return the identity of a binding as bytes: source, destination, routing key and sorted arguments."""
    names = [
        name.encode("utf-8", "surrogateescape") for name in (source, destination.kind, destination.name, routing_key)
    ]
    # A length precedes each part: names may contain any byte, so there is no separator.
    return b"".join([bytes((len(name),)) + name for name in names]) + arguments.key()
