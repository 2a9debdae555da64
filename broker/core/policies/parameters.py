"""Runtime parameters: JSON values by virtual host, component and name, and global parameters.

A component validates its values and applies them. Policies, limits and federation have components, and plugins may
register their own. Observers of the node are notified of every change after the component has applied it.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any

from ...amqp.errors import Invalid, Unknown, unknown_vhost
from ...amqp.names import strip_line_ends
from ..jobs.scheduler import OBJECT_COST, Job
from ..metadata.records import Change, StoredGlobalParameter, StoredParameter
from ..metadata.validation import check_text, text
from ..vhost.observer import Observers
from ..vhost.vhost import CheckNew, VHost, allow_new

CLUSTER_NAME = "cluster_name"
CLUSTER_ID = "internal_cluster_id"
CLUSTER_NAME_LIMIT = 255  # bytes: each connection gets it in connection.start
NAME_LIMIT = 65_536
ERRORS_LIMIT, ERROR_LENGTH = 10, 100_000  # errors in one value that are reported, and characters of each
POLICY = "policy"  # set by `Policies` only
MISSING = "Parameter does not exist"


@dataclass(slots=True, eq=False)
class Parameter:
    """A parameter. It is immutable: a changed parameter is a new object. `user` set it; empty for the node itself."""

    vhost: str
    component: str
    name: str
    value: object
    user: str = ""


class Component:
    """The validation and application of the parameters of one kind.

    keeps          stored values are restored even if they are not valid any more; the component deals with them
    acts_for_user  the component acts with the permissions of the user who set the parameter
    """

    __slots__ = ("name",)
    keeps = False
    acts_for_user = False

    def __init__(self, name: str) -> None:
        self.name = name

    def validate(self, name: str, value: object) -> list[str]:
        """Return a line for each error in the value."""
        raise NotImplementedError

    def check_new(self, vhost: str, planned: int) -> list[str]:
        """Return a line if a virtual host may have no other parameter of the kind, in addition to `planned` ones."""
        return []

    def not_restored(self, vhost: str, name: str) -> None:
        """Note that a stored value is not valid any more."""

    def changed(self, vhost: str, name: str, value: object) -> None:
        """Apply the value from now on; None if the parameter was deleted."""


class Parameters:
    """The parameters of a node.

    limits  by component, how many parameters it may have in all
    user    returns the user who makes the current change, empty for the node itself
    """

    def __init__(self, vhosts: dict[str, VHost], observers: Observers) -> None:
        """Both arguments are the node's own objects, and change."""
        self.limits: dict[str, int] = {}
        self.user: Callable[[], str] = lambda: ""
        self._vhosts = vhosts
        self._observers = observers
        self._components: dict[str, Component] = {}
        self._parameters: dict[str, dict[tuple[str, str], Parameter]] = {}  # by virtual host; component and name
        self._counts: Counter[str] = Counter()  # of them, by component
        self._counts_of: dict[str, Counter[str]] = {}  # the same by virtual host
        self._globals: dict[str, object] = {}

    def register(self, component: Component) -> None:
        self._components[component.name] = component

    # Looking up

    def get(self, vhost: str, component: str, name: str) -> object:
        """Return the value, or None."""
        parameter = self.find(vhost, component, name)
        return parameter.value if parameter is not None else None

    def find(self, vhost: str, component: str, name: str) -> Parameter | None:
        """Return the parameter, or None."""
        return self._parameters.get(vhost, {}).get((component, name))

    def all(self, vhost: str | None = None, component: str | None = None) -> list[Parameter]:
        """Return the parameters, sorted. Policies are parameters of a component."""
        return [
            self._parameters[at][key]
            for at in sorted(self._parameters)
            if vhost in (None, at)
            for key in sorted(self._parameters[at])
            if component in (None, key[0])
        ]

    def unsorted(self) -> list[Parameter]:
        """All parameters in any order, for callers that sort very many in slices."""
        return [one for there in self._parameters.values() for one in there.values()]

    def get_global(self, name: str) -> object:
        """Return the value of a global parameter, or None."""
        return self._globals.get(name)

    def has_global(self, name: str) -> bool:
        """True if there is a global parameter of this name, whose value may be null."""
        return name in self._globals

    def globals(self) -> dict[str, object]:
        """Return the global parameters by name."""
        return dict(self._globals)

    # Changing

    def set(self, vhost: str, component: str, name: str, value: object, check_new: CheckNew = allow_new) -> bool:
        """Set a parameter other than a policy, and return whether it is new. Raises Invalid, Unknown."""
        if component == POLICY:
            raise Invalid("policies may not be set using this method")
        return self.put(vhost, component, name, value, check_new)

    def clear(self, vhost: str, component: str, name: str) -> None:
        """Delete a parameter other than a policy. Raises Unknown, Invalid."""
        if component == POLICY:
            raise Invalid("policies may not be cleared using this method")
        self.drop(vhost, component, name)

    def put(self, vhost: str, component: str, name: str, value: object, check_new: CheckNew = allow_new) -> bool:
        """Set a parameter, and return whether it is new. Raises Invalid, Unknown.

        Setting the same value changes nothing, unless the component acts for the user and another user sets it. A value
        that is not longer than the one that it replaces is not checked by `check_new`.
        """
        self._check_vhost(vhost)
        stored = self.check(vhost, component, name, value)
        old = self.find(vhost, component, name)
        known = self._components.get(component)
        user = self.user() if known is not None and known.acts_for_user else ""
        if old is None or old.user != user or not is_same(old.value, value):
            check_longer(old.value if old is not None else None, name, stored, check_new)
            self._store(Parameter(vhost, component, name, json.loads(stored), user))
            self._notify(Change(True, StoredParameter(vhost, component, name, stored, user)))
        return old is None

    def check(
        self, vhost: str, component: str, name: str, value: object, planned: int = 0, planned_there: int = 0
    ) -> str:
        """Return the value as JSON. Raises Invalid if it cannot be set.

        `planned` parameters of the component count as set already, `planned_there` of them in this virtual host.
        """
        check_text("the name of a parameter", name, NAME_LIMIT)
        stored = to_json(value)
        lines = self._validate(component, name, value)
        if not lines and self.find(vhost, component, name) is None:
            limit = self.limits.get(component)
            lines = self._components[component].check_new(vhost, planned_there)
            if limit is not None and self._counts[component] + planned >= limit:
                lines = [f"component {component} is limited to {limit}"]
        if lines:
            shown = [line[:ERROR_LENGTH] for line in lines[:ERRORS_LIMIT]]
            raise Invalid("\n".join(["Validation failed\n", *shown, ""]))
        return stored

    def drop(self, vhost: str, component: str, name: str) -> None:
        """Delete a parameter. Raises Unknown."""
        self._check_vhost(vhost)
        parameter = self.find(vhost, component, name)
        if parameter is None:
            raise Unknown(MISSING)
        there = self._parameters[vhost]
        del there[component, name]
        if not there:
            del self._parameters[vhost]
        self._count(vhost, component, -1)
        self._removed(parameter)

    def drop_vhost(self, vhost: str) -> Job:
        """Forget all parameters of a deleted virtual host at once, and return a job that does the rest."""
        self._counts.subtract(self._counts_of.pop(vhost, {}))
        return self._drop_all(self._parameters.pop(vhost, {}))

    def _drop_all(self, parameters: dict[tuple[str, str], Parameter]) -> Job:
        while parameters:
            self._removed(parameters.popitem()[1])
            yield OBJECT_COST

    def set_global(self, name: str, value: object, check_new: CheckNew = allow_new) -> bool:
        """Set a global parameter, and return whether it is new, with `check_new` as in `put`. Raises Invalid."""
        return self.put_global(name, self.check_global(name, value), check_new)

    def put_global(self, name: str, stored: str, check_new: CheckNew = allow_new) -> bool:
        """Set a global parameter to what `check_global` has returned, and return whether it is new, as `set_global`."""
        new = name not in self._globals
        value: object = json.loads(stored)
        if new or not is_same(self._globals[name], value):
            check_longer(self._globals.get(name), name, stored, check_new)
            self._globals[name] = value
            self._notify(Change(True, StoredGlobalParameter(name, stored)))
        return new

    def check_global(self, name: str, value: object) -> str:
        """Return the value as JSON. Raises Invalid if it cannot be set."""
        check_text("the name of a parameter", name, NAME_LIMIT)
        stored = to_json(value)
        if name == CLUSTER_NAME:
            if not isinstance(value, str):
                raise Invalid(f"Validation failed\n\n{text(name, value)}\n")
            check_text("the name of the cluster", value, CLUSTER_NAME_LIMIT, 1)
            if value != strip_line_ends(value):
                raise Invalid("the name of the cluster has more than one line")
        return stored

    def clear_global(self, name: str) -> None:
        """Delete a global parameter. Raises Unknown."""
        if name not in self._globals:
            raise Unknown(MISSING)
        self._notify(Change(False, StoredGlobalParameter(name, to_json(self._globals.pop(name)))))

    # At the start

    def restore(self, stored: StoredParameter) -> None:
        """Restore a stored parameter, also of an unknown component. Observers are not notified. Raises Invalid,
        Unknown.
        """
        self._check_vhost(stored.vhost)
        value = from_json(stored.value)
        component = self._components.get(stored.component)
        if component is not None and not component.keeps:
            lines = component.validate(stored.name, value)
            if lines:
                component.not_restored(stored.vhost, stored.name)
                raise Invalid(", ".join(lines))
        self._store(Parameter(stored.vhost, stored.component, stored.name, value, stored.user))

    def restore_global(self, stored: StoredGlobalParameter) -> None:
        """Restore a stored global parameter. Raises Invalid."""
        self._globals[stored.name] = from_json(stored.value)

    def _validate(self, component: str, name: str, value: object) -> list[str]:
        known = self._components.get(component)
        return known.validate(name, value) if known is not None else [f"component {component} not found"]

    def _store(self, parameter: Parameter) -> None:
        there = self._parameters.setdefault(parameter.vhost, {})
        key = (parameter.component, parameter.name)
        if key not in there:
            self._count(parameter.vhost, parameter.component, 1)
        there[key] = parameter
        self._changed(parameter, parameter.value)

    def _count(self, vhost: str, component: str, change: int) -> None:
        self._counts[component] += change
        self._counts_of.setdefault(vhost, Counter())[component] += change

    def _removed(self, parameter: Parameter) -> None:
        key = (parameter.vhost, parameter.component, parameter.name)
        self._changed(parameter, None)
        self._notify(Change(False, StoredParameter(*key, to_json(parameter.value))))

    def _changed(self, parameter: Parameter, value: object) -> None:
        component = self._components.get(parameter.component)
        if component is not None:
            component.changed(parameter.vhost, parameter.name, value)

    def _check_vhost(self, name: str) -> None:
        if name not in self._vhosts:
            raise unknown_vhost(name)

    def _notify(self, change: Change) -> None:
        self._observers.configured(change)


def to_json(value: object) -> str:
    """Return the value as JSON text. Raises Invalid for values that JSON cannot represent."""
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise Invalid("Validation failed\n\nthe value is not JSON\n") from None


def from_json(stored: str) -> object:
    """Return the value of a JSON text. Raises Invalid."""
    try:
        value: object = json.loads(stored)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"its value is not JSON: {error}") from None
    return value


def is_same(one: object, other: object) -> bool:
    """Return whether two values are the same in JSON: `true` and 1 are not, objects with their fields in any order are.

    Equal values are compared by their types, level by level: a walk of very many short arrays takes 9 ms.
    """
    if one != other:
        return False
    ones: list[Any] = [one]
    others: list[Any] = [other]
    while True:
        types = [*map(type, ones)]
        if types != [*map(type, others)]:
            return False
        if list not in types and dict not in types:
            return True
        maps = [(each, same) for each, same in zip(ones, others, strict=True) if isinstance(each, dict)]
        ones = inner(ones) + [part for each, _ in maps for part in each.values()]
        others = inner(others) + [same[key] for each, same in maps for key in each]


def inner(values: list[Any]) -> list[Any]:
    """Return the elements of the arrays among the values."""
    return [*chain.from_iterable([each for each in values if isinstance(each, list)])]


def check_longer(old: object, name: str, stored: str, check_new: CheckNew) -> None:
    """Check by `check_new` a value that is longer than the one that it replaces; None replaces nothing."""
    if check_new is not allow_new and (old is None or len(stored) > len(to_json(old))):
        check_new(len(name.encode()) + len(stored), True)
