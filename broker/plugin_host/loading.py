"""Loading of plugins by the entry points of installed distributions: exchange types, services, commands."""

from collections.abc import Callable, Collection, Iterator
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from ..core.exchanges.exchange_type import ExchangeType, Registry
from .host import Command, Service

EXCHANGE_TYPES = "warren.exchange_types"  # the name of an entry point is the type's name on the wire
SERVICES = "warren.services"
COMMANDS = "warren.commands"  # the name of an entry point is that of the command
BROKEN_PLUGIN = 70  # EX_SOFTWARE of sysexits: the status of a start that a plugin prevents

Made = TypeVar("Made", Command, Service)


class PluginError(Exception):
    """A plugin cannot be used; the text is one line that names it and its distribution."""


def load_exchange_types(registry: Registry) -> None:
    """Register all installed exchange types. Raises PluginError."""
    for entry, distribution in installed(EXCHANGE_TYPES):
        load(entry, f"exchange type '{entry.name}' of {distribution}", partial(register, registry, entry, distribution))


def load_services() -> dict[str, Service]:
    """Return new services by the names of their entry points. Raises PluginError."""
    services: dict[str, Service] = {}
    for entry, distribution in installed(SERVICES):
        load(entry, f"service '{entry.name}' of {distribution}", partial(make, services, Service, entry))
    return services


def load_commands(taken: Collection[str]) -> dict[str, Command]:
    """Return new commands by the names of their entry points; `taken` names are refused. Raises PluginError."""
    commands: dict[str, Command] = {}
    for entry, distribution in installed(COMMANDS):
        what = f"command '{entry.name}' of {distribution}"
        if entry.name in taken:
            raise PluginError(f"{what}: the name is taken, it is built in")
        load(entry, what, partial(make, commands, Command, entry))
    return commands


def installed(group: str) -> Iterator[tuple[EntryPoint, str]]:
    """Yield the installed entry points of a group by name, each with name and version of its distribution."""
    names: dict[int, str] = {}  # names of distributions, whose metadata is slow to parse
    for entry in sorted(entry_points(group=group), key=lambda entry: entry.name):
        if id(entry.dist) not in names:
            names[id(entry.dist)] = distribution_of(entry)
        yield entry, names[id(entry.dist)]


def distribution_of(entry: EntryPoint) -> str:
    """Return name and version of an entry point's distribution."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "an unknown distribution"


def load(entry: EntryPoint, what: str, use: Callable[[object], None]) -> None:
    """Load an entry point and pass the object to `use`. Raises PluginError for any error."""
    try:
        use(entry.load())
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise PluginError(f"{what}: {reason}") from error


def register(registry: Registry, entry: EntryPoint, distribution: str, loaded: object) -> None:
    """Register a loaded class, which must be an ExchangeType, under the name of its entry point."""
    if not (isinstance(loaded, type) and issubclass(loaded, ExchangeType)):
        raise TypeError(f"{entry.value} is no ExchangeType")
    registry.register(entry.name, loaded, distribution)


def make(made: dict[str, Made], kind: type[Made], entry: EntryPoint, loaded: object) -> None:
    """Add an instance of a loaded class, which must be a subclass of `kind`, under the name of its entry point."""
    if not (isinstance(loaded, type) and issubclass(loaded, kind)):
        raise TypeError(f"{entry.value} is no {kind.__name__}")
    if entry.name in made:
        raise ValueError("the name is taken")
    made[entry.name] = loaded()
