"""Runtime parameters: values of JSON by virtual host, component and name, and those of the whole broker (core.md 22).

A component says what its values may be and works by them; policies, limits and federation are some, and a plugin
registers its own. Every change is told to the observers of the node, after the component works by it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...amqp.errors import Invalid, Unknown, unknown_vhost
from ..metadata.records import Change, StoredGlobalParameter, StoredParameter
from ..metadata.validation import check_text, text
from ..vhost.observer import Observers

if TYPE_CHECKING:
    from ..vhost.vhost import VHost

CLUSTER_NAME = "cluster_name"
CLUSTER_ID = "internal_cluster_id"
CLUSTER_NAME_LIMIT = 255  # octets: every connection is greeted with it
NAME_LIMIT = 65_536
POLICY = "policy"  # has doors of its own (Policies)
MISSING = "Parameter does not exist"


class Parameter:
    """A value by its names. Never changed, but replaced. `user` is who set it, empty for the node itself."""

    __slots__ = ("vhost", "component", "name", "value", "user")

    def __init__(self, vhost: str, component: str, name: str, value: object, user: str = "") -> None:
        self.vhost = vhost
        self.component = component
        self.name = name
        self.value = value
        self.user = user


class Component:
    """What parameters of one kind are for. One that `keeps` what was stored has it back at the start though it would be
    refused now, and deals with it. One that `acts_for_user` works with the rights of the user who set the parameter."""

    __slots__ = ("name",)
    keeps = False
    acts_for_user = False

    def __init__(self, name: str) -> None:
        self.name = name

    def validate(self, name: str, value: object) -> list[str]:
        """All that is wrong with it, a line each."""
        raise NotImplementedError

    def validate_stored(self, name: str, value: object) -> list[str]:
        """The same of a value that was valid when it was stored, perhaps by an earlier version."""
        return self.validate(name, value)

    def not_restored(self, vhost: str, name: str) -> None:
        """Note that a stored value is not valid any more."""

    def changed(self, vhost: str, name: str, value: object) -> None:
        """Work by the value from now on; None where there is none any more."""


class Parameters:
    """`limits` are how many of a component's there may be in all, where that is bounded; `user` names the user who
    acts now, empty for the node itself."""

    def __init__(self, vhosts: dict[str, VHost], observers: Observers) -> None:
        """Both the node's own, which change."""
        self.limits: dict[str, int] = {}
        self.user: Callable[[], str] = lambda: ""
        self._vhosts = vhosts
        self._observers = observers
        self._components: dict[str, Component] = {}
        self._parameters: dict[tuple[str, str, str], Parameter] = {}
        self._globals: dict[str, object] = {}

    def register(self, component: Component) -> None:
        self._components[component.name] = component

    # Looking up

    def get(self, vhost: str, component: str, name: str) -> object:
        """The value; None where there is none."""
        parameter = self._parameters.get((vhost, component, name))
        return parameter.value if parameter is not None else None

    def all(self, vhost: str | None = None, component: str | None = None) -> list[Parameter]:
        """Sorted. Policies are among them, as one component."""
        return [
            self._parameters[key]
            for key in sorted(self._parameters)
            if vhost in (None, key[0]) and component in (None, key[1])
        ]

    def unsorted(self) -> list[Parameter]:
        """All parameters in any order, for callers that sort very many in slices."""
        return list(self._parameters.values())

    def globals(self) -> dict[str, object]:
        """By name."""
        return dict(self._globals)

    # Changing

    def set(self, vhost: str, component: str, name: str, value: object) -> bool:
        """Whether it is new. Raises Invalid, Unknown; a policy is set by `Policies` alone."""
        if component == POLICY:
            raise Invalid("policies may not be set using this method")
        return self.put(vhost, component, name, value)

    def clear(self, vhost: str, component: str, name: str) -> None:
        """Raises Unknown, Invalid for a policy."""
        if component == POLICY:
            raise Invalid("policies may not be cleared using this method")
        self.drop(vhost, component, name)

    def put(self, vhost: str, component: str, name: str, value: object) -> bool:
        """Whether it is new. The same value again changes nothing and tells nobody, unless the component acts for the
        user who sets it. Raises Invalid, Unknown."""
        self._check_vhost(vhost)
        stored = self.check(vhost, component, name, value)
        old = self._parameters.get((vhost, component, name))
        known = self._components.get(component)
        user = self.user() if known is not None and known.acts_for_user else ""
        if old is None or old.user != user or not same_json(old.value, value):
            self._store(Parameter(vhost, component, name, json.loads(stored), user))
            self._notify(Change(True, StoredParameter(vhost, component, name, stored, user)))
        return old is None

    def check(self, vhost: str, component: str, name: str, value: object, planned: int = 0) -> str:
        """Whether it may be put, where so many others of the component are about to be; its JSON. Raises Invalid."""
        check_text("the name of a parameter", name, NAME_LIMIT)
        stored = to_json(value)
        lines = self._validate(component, name, value)
        limit = self.limits.get(component)
        new = (vhost, component, name) not in self._parameters
        if not lines and new and limit is not None and len(self.all(None, component)) + planned >= limit:
            lines = [f"component {component} is limited to {limit}"]
        if lines:
            raise Invalid("\n".join(["Validation failed\n", *lines, ""]))
        return stored

    def drop(self, vhost: str, component: str, name: str) -> None:
        """Raises Unknown."""
        self._check_vhost(vhost)
        if (vhost, component, name) not in self._parameters:
            raise Unknown(MISSING)
        self._remove((vhost, component, name))

    def drop_vhost(self, vhost: str) -> None:
        """All that are in a virtual host that goes."""
        for parameter in self.all(vhost):
            self._remove((vhost, parameter.component, parameter.name))

    def set_global(self, name: str, value: object) -> bool:
        """Whether it is new. Raises Invalid."""
        stored = self.check_global(name, value)
        new = name not in self._globals
        if new or not same_json(self._globals[name], value):
            self._globals[name] = json.loads(stored)
            self._notify(Change(True, StoredGlobalParameter(name, stored)))
        return new

    def check_global(self, name: str, value: object) -> str:
        """Whether it may be set; its JSON. Raises Invalid."""
        check_text("the name of a parameter", name, NAME_LIMIT)
        stored = to_json(value)
        if name == CLUSTER_NAME:
            if not isinstance(value, str):
                raise Invalid(f"Validation failed\n\n{text(name, value)}\n")
            check_text("the name of the cluster", value, CLUSTER_NAME_LIMIT)
        return stored

    def clear_global(self, name: str) -> None:
        """Raises Unknown."""
        if name not in self._globals:
            raise Unknown(MISSING)
        self._notify(Change(False, StoredGlobalParameter(name, to_json(self._globals.pop(name)))))

    # At the start

    def restore(self, stored: StoredParameter) -> None:
        """One that was stored, also of a component that is not there now; nobody is told. Raises Invalid, Unknown."""
        self._check_vhost(stored.vhost)
        value = from_json(stored.value)
        component = self._components.get(stored.component)
        if component is not None and not component.keeps:
            lines = component.validate_stored(stored.name, value)
            if lines:
                component.not_restored(stored.vhost, stored.name)
                raise Invalid(", ".join(lines))
        self._store(Parameter(stored.vhost, stored.component, stored.name, value, stored.user))

    def restore_global(self, stored: StoredGlobalParameter) -> None:
        """Raises Invalid."""
        self._globals[stored.name] = from_json(stored.value)

    def _validate(self, component: str, name: str, value: object) -> list[str]:
        known = self._components.get(component)
        return known.validate(name, value) if known is not None else [f"component {component} not found"]

    def _store(self, parameter: Parameter) -> None:
        self._parameters[parameter.vhost, parameter.component, parameter.name] = parameter
        self._changed(parameter, parameter.value)

    def _remove(self, key: tuple[str, str, str]) -> None:
        parameter = self._parameters.pop(key)
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
    """Raises Invalid for what JSON cannot say."""
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise Invalid("Validation failed\n\nthe value is not JSON\n") from None


def from_json(stored: str) -> object:
    """Raises Invalid."""
    try:
        value: object = json.loads(stored)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"its value is not JSON: {error}") from None
    return value


def same_json(one: object, other: object) -> bool:
    """Whether they say the same, in whatever order of keys; to Python `true` and 1 would be the same."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
