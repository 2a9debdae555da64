"""`eval` for the few Erlang expressions that configuration management, probes and test suites of clients send."""

import re
from collections.abc import Callable

from ..call import Call
from ..command import NODES
from ..errors import SOFTWARE, CommandError, missing
from ..formats import atom, term
from .users import is_password

UNSUPPORTED = "eval is not supported"
STRING = r'"(?:[^"\\]|\\.)*"'
SPACE = re.compile(rf"({STRING})|\s+")
TEXT = rf"(?:list_to_binary\(({STRING})\)|<<({STRING})(?:/utf8)?>>)"
NAME = re.compile(rf"<<({STRING})>>")
ESCAPE = re.compile(r"\\(x\{[0-9a-fA-F]{1,6}\}|x[0-9a-fA-F]{2}|[0-7]{1,3}|\^.|.)", re.DOTALL)
CONTROLS = dict(zip("bdefnrstv", "\b\x7f\x1b\f\n\r \t\v", strict=True))


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


def switch_alarm(call: Call, method: str, resource: str) -> str:
    with missing(CommandError(SOFTWARE, UNSUPPORTED)):
        call.api.request(method, ("warren", "alarms", resource), {} if method == "PUT" else None)
    return "ok"


def get_alarms(call: Call) -> str:
    node = call.get("nodes/{node}", {"columns": "mem_alarm,disk_free_alarm"})
    on = [name for name, key in (("memory", "mem_alarm"), ("disk", "disk_free_alarm")) if node[key]]
    return "[" + ",".join(f"{{{{resource_limit,{name},{atom(call.node)}}},[]}}" for name in on) + "]"


def set_setting(call: Call, key: str, value: object) -> str:
    call.put("warren/settings", {key: value})
    return "ok"


def setting(call: Call, key: str) -> str:
    """Return a key of RabbitMQ's application environment as an Erlang term. Raises CommandError (70)."""
    settings = call.get("warren/settings")
    if key not in settings:
        raise CommandError(SOFTWARE, UNSUPPORTED)
    value = settings[key]
    return f'"{value}"' if isinstance(value, str) else term(value)


def check_password(call: Call, *literals: str | None) -> str:
    """Check a password as RabbitMQ's function does: the term is that of a user, or has `refused`."""
    name, password = (unquoted(literal) for literal in literals if literal is not None)
    if not is_password(call, name, password):
        return f"{{refused,{term(name)},\"user '~ts' - invalid credentials\",[{term(name)}]}}"
    tags = ",".join(map(atom, call.user(name)["tags"]))
    return f"{{ok,{{user,{term(name)},[{tags}],[{{rabbit_auth_backend_internal,none}}]}}}}"


IDIOMS: list[tuple[str, Callable[..., str]]] = [
    (rf"rabbit_access_control:check_user_pass_login\({TEXT},{TEXT}\)", check_password),  # Puppet
    (r"application:get_env\(rabbit,(\w+)\)", lambda call, key: f"{{ok,{setting(call, key)}}}"),  # Puppet
    (r"node\(\)", lambda call: call.node),  # Chef
    (r"rabbit_nodes:reached_target_cluster_size\(\)", lambda call: "true"),  # the Kubernetes operator
    (r"rabbit_mnesia:is_clustered\(\)", lambda call: "false"),  # Puppet for OpenStack
    # Test suites of clients
    (r"rabbit_alarm:get_alarms\(\)", get_alarms),
    (r"rabbit_alarm:set_alarm\(\{\{resource_limit,(\w+),node\(\)\},\[\]\}\)",
     lambda call, resource: switch_alarm(call, "PUT", resource)),
    (r"rabbit_alarm:clear_alarm\(\{resource_limit,(\w+),node\(\)\}\)",
     lambda call, resource: switch_alarm(call, "DELETE", resource)),
    (r"application:set_env\(rabbit,channel_max,(\d{1,9})\)",
     lambda call, number: set_setting(call, "channel_max", int(number))),
    (rf"application:set_env\(rabbit,loopback_users,\[((?:<<{STRING}>>,?)*)\]\)",
     lambda call, names: set_setting(call, "loopback_users", [unquoted(name) for name in NAME.findall(names)])),
    (r"\{ok,(\w+)\}=application:get_env\(rabbit,(\w+)\),\1", lambda call, variable, key: setting(call, key)),
]  # fmt: skip


def evaluate(call: Call) -> str:
    """Raises CommandError (70) for any other expression."""
    expression = SPACE.sub(r"\1", call.arguments[0]).removesuffix(".")
    for pattern, answer in IDIOMS:
        match = re.fullmatch(pattern, expression, re.DOTALL)
        if match is not None:
            return answer(call, *match.groups())
    raise CommandError(SOFTWARE, UNSUPPORTED)


# fmt: off
NODES.local("eval <expression>: Evaluates one of a few known expressions", run=evaluate)
