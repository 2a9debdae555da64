"""`eval` for the few Erlang expressions that configuration management, probes and test suites of clients send."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ..answers import CommandError
from ..api_client import NotFound
from ..exit_status import SOFTWARE
from ..formats import atom, term
from .call import Call, Handler

STRING = r'"(?:[^"\\]|\\.)*"'
SPACE = re.compile(rf"({STRING})|\s+")
TEXT = rf"(?:list_to_binary\(({STRING})\)|<<({STRING})(?:/utf8)?>>)"
NAME = re.compile(rf"<<({STRING})>>")
ESCAPE = re.compile(r"\\(x\{[0-9a-fA-F]{1,6}\}|x[0-9a-fA-F]{2}|[0-7]{1,3}|\^.|.)", re.DOTALL)
CONTROLS = dict(zip("bdefnrstv", "\b\x7f\x1b\f\n\r \t\v", strict=True))


def unsupported() -> CommandError:
    return CommandError(SOFTWARE, "eval is not supported")


def unquoted(literal: str) -> str:
    """Return the text of an Erlang string literal."""
    return ESCAPE.sub(lambda match: character(match[1]), literal[1:-1])


def character(escape: str) -> str:
    """Return the character of an escape sequence, which is given without its backslash."""
    if escape[0] == "x" and len(escape) > 1:
        return chr(min(int(escape[1:].strip("{}"), 16), 0x10FFFF))
    if escape[0].isdecimal():
        return chr(int(escape, 8)) if escape[0] < "8" else escape
    return chr(ord(escape[1]) & 31) if escape[0] == "^" else CONTROLS.get(escape, escape)


def set_alarm(call: Call, match: re.Match[str]) -> str:
    try:
        call.api.put("warren", "alarms", match[1])
    except NotFound:
        raise unsupported() from None
    return "ok"


def clear_alarm(call: Call, match: re.Match[str]) -> str:
    try:
        call.api.delete("warren", "alarms", match[1])
    except NotFound:
        raise unsupported() from None
    return "ok"


def get_alarms(call: Call, match: re.Match[str]) -> str:
    node = call.api.get("nodes", call.node, columns="mem_alarm,disk_free_alarm")
    on = [name for name, key in (("memory", "mem_alarm"), ("disk", "disk_free_alarm")) if node[key]]
    return "[" + ",".join(f"{{{{resource_limit,{name},{atom(call.node)}}},[]}}" for name in on) + "]"


def set_channel_max(call: Call, match: re.Match[str]) -> str:
    call.api.put("warren", "settings", body={"channel_max": int(match[1])})
    return "ok"


def set_loopback_users(call: Call, match: re.Match[str]) -> str:
    names = [unquoted(name) for name in NAME.findall(match[1])]
    call.api.put("warren", "settings", body={"loopback_users": names})
    return "ok"


def get_env(call: Call, match: re.Match[str]) -> str:
    return value_of(call, match[2])


def get_env_pair(call: Call, match: re.Match[str]) -> str:
    return f"{{ok,{value_of(call, match[1])}}}"


def value_of(call: Call, key: str) -> str:
    """Return a key of RabbitMQ's application environment as an Erlang term. Raises CommandError (70)."""
    settings: dict[str, Any] = call.api.get("warren", "settings")
    if key not in settings:
        raise unsupported()
    value = settings[key]
    return f'"{value}"' if isinstance(value, str) else term(value)


def check_password(call: Call, match: re.Match[str]) -> str:
    """Check a password as RabbitMQ's function does: the term is that of a user, or has `refused`."""
    name, password = (unquoted(given) for given in match.groups() if given is not None)
    if not call.api.post("warren", "authenticate", body={"username": name, "password": password})["authenticated"]:
        return f"{{refused,{term(name)},\"user '~ts' - invalid credentials\",[{term(name)}]}}"
    tags = ",".join(map(atom, call.user(name)["tags"]))
    return f"{{ok,{{user,{term(name)},[{tags}],[{{rabbit_auth_backend_internal,none}}]}}}}"


def node_name(call: Call, match: re.Match[str]) -> str:
    return call.node


IDIOMS: list[tuple[str, Callable[[Call, re.Match[str]], str]]] = [
    (rf"rabbit_access_control:check_user_pass_login\({TEXT},{TEXT}\)", check_password),  # Puppet
    (r"application:get_env\(rabbit,(\w+)\)", get_env_pair),  # Puppet
    (r"node\(\)", node_name),  # Chef
    (r"rabbit_nodes:reached_target_cluster_size\(\)", lambda call, match: "true"),  # the Kubernetes operator
    (r"rabbit_mnesia:is_clustered\(\)", lambda call, match: "false"),  # Puppet for OpenStack
    (r"rabbit_alarm:get_alarms\(\)", get_alarms),
    (r"rabbit_alarm:set_alarm\(\{\{resource_limit,(\w+),node\(\)\},\[\]\}\)", set_alarm),
    (r"rabbit_alarm:clear_alarm\(\{resource_limit,(\w+),node\(\)\}\)", clear_alarm),
    (r"application:set_env\(rabbit,channel_max,(\d{1,9})\)", set_channel_max),
    (rf"application:set_env\(rabbit,loopback_users,\[((?:<<{STRING}>>,?)*)\]\)", set_loopback_users),
    (r"\{ok,(\w+)\}=application:get_env\(rabbit,(\w+)\),\1", get_env),
]


def evaluate(call: Call) -> str:
    """Raises CommandError (70) for any other expression."""
    expression = SPACE.sub(r"\1", call.arguments[0]).removesuffix(".")
    for pattern, handler in IDIOMS:
        match = re.fullmatch(pattern, expression, re.DOTALL)
        if match is not None:
            return handler(call, match)
    raise unsupported()


COMMANDS: dict[str, Handler] = {"eval": evaluate}
