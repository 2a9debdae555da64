"""Commands for runtime parameters, those of a virtual host and global ones."""

from ..call import Call, Item
from ..command import LISTING, PARAMETERS, V, keys
from ..errors import UNAVAILABLE, APIError, CommandError, NotFound, bad_argument
from ..formats import compact


def put(call: Call, path: str, body: object) -> None:
    """Put an object; the API escapes the reason for browsers, which is undone here. Raises CommandError (65, 69)."""
    if "" in call.path(path):
        raise bad_argument("name cannot be an empty string")
    try:
        call.put(path, body)
    except APIError as error:
        if error.status != 400:
            raise
        from html import unescape  # here: its table is large

        raise CommandError(UNAVAILABLE, unescape(error.reason)) from None


def clear(call: Call, path: str) -> None:
    """Delete an object. Raises CommandError (69) if it does not exist, as none with an empty name does."""
    try:
        if "" not in call.path(path):
            call.delete(path)
            return
    except NotFound:
        pass
    raise CommandError(UNAVAILABLE, "Parameter does not exist")


def value_text(parameter: Item) -> str:
    return compact(parameter["value"])


def set_parameter(call: Call) -> None:
    component, name, text = call.arguments
    call.check_vhost()
    body = {"component": component, "vhost": call.vhost_name, "name": name, "value": call.document(text)}
    put(call, "parameters/{0}/{vhost}/{1}", body)


def clear_parameter(call: Call) -> None:
    call.check_vhost()
    clear(call, "parameters/{0}/{vhost}/{1}")


def list_parameters(call: Call) -> list[Item]:
    call.check_vhost()
    return [one for one in call.get("parameters") if one["vhost"] == call.vhost_name]


def set_global_parameter(call: Call) -> None:
    name, text = call.arguments
    put(call, "global-parameters/{0}", {"name": name, "value": call.document(text)})


# fmt: off
PARAMETERS(f"set_parameter {V} <component_name> <name> <value>: Sets a runtime parameter",
           'Setting runtime parameter "{1}" for component "{0}" to "{2}" in vhost "{vhost}" ...', set_parameter)
PARAMETERS(f"clear_parameter {V} <component_name> <name>: Clears a runtime parameter",
           'Clearing runtime parameter "{1}" for component "{0}" on vhost "{vhost}" ...', clear_parameter)
PARAMETERS(f"list_parameters {V} {LISTING}: Lists runtime parameters for a virtual host",
           'Listing runtime parameters for vhost "{vhost}" ...', list_parameters,
           columns=keys("component name", value=value_text))
PARAMETERS("set_global_parameter <name> <value>: Sets a global runtime parameter",
           'Setting global runtime parameter "{0}" to "{1}" ...', set_global_parameter)
PARAMETERS("clear_global_parameter <name>: Clears a global runtime parameter",
           'Clearing global runtime parameter "{0}" ...', lambda call: clear(call, "global-parameters/{0}"))
PARAMETERS(f"list_global_parameters {LISTING}: Lists global runtime parameters",
           "Listing global runtime parameters ...",
           lambda call: sorted(call.get("global-parameters"), key=lambda one: str(one["name"])),
           columns=keys("name", value=value_text))
