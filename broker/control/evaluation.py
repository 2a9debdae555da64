"""`eval`: the few Erlang expressions that test suites of RabbitMQ clients use."""

from __future__ import annotations

import re
from collections.abc import Callable

from ..core.telemetry.resource_alarms import RESOURCES
from .answers import SOFTWARE, Refused
from .call import Call, Handler

SPACE = re.compile(r"\s+")
SET_ALARM = re.compile(r"rabbit_alarm:set_alarm\(\{\{resource_limit,(\w+),node\(\)\},\[\]\}\)\.?")
SET_CHANNEL_MAX = re.compile(r"application:set_env\(rabbit,channel_max,(\d{1,9})\)\.?")
SET_LOOPBACK_USERS = re.compile(r"application:set_env\(rabbit,loopback_users,\[(.*)\]\)\.?")
NAME = re.compile(r'<<"([^"]*)">>')
GET_ENV = re.compile(r"\{ok,(\w+)\}=application:get_env\(rabbit,(\w+)\),\1\.?")
CHANNELS = 65_535  # what connection.tune can say
CLEAR_ALARM = re.compile(r"rabbit_alarm:clear_alarm\(\{resource_limit,(\w+),node\(\)\}\)\.?")


def set_alarm(call: Call, found: re.Match[str]) -> str:
    if found[1] not in RESOURCES:
        raise Refused(SOFTWARE, "eval is not supported")
    call.node.alarms.set(found[1])
    return "ok"


def clear_alarm(call: Call, found: re.Match[str]) -> str:
    if found[1] not in RESOURCES:
        raise Refused(SOFTWARE, "eval is not supported")
    call.node.alarms.clear(found[1])
    return "ok"


def set_channel_max(call: Call, found: re.Match[str]) -> str:
    """For connections from now on."""
    call.daemon.host.settings.channel_max = min(int(found[1]), CHANNELS)
    return "ok"


def set_loopback_users(call: Call, found: re.Match[str]) -> str:
    call.node.users.loopback_only = frozenset(NAME.findall(found[1]))
    return "ok"


def get_env(call: Call, found: re.Match[str]) -> str:
    settings = call.daemon.host.settings
    values: dict[str, object] = {
        "channel_max": settings.channel_max,
        "frame_max": settings.frame_max,
        "heartbeat": settings.heartbeat_s,
        "loopback_users": "[" + ",".join([f'<<"{name}">>' for name in sorted(call.node.users.loopback_only)]) + "]",
    }
    if found[2] not in values:
        raise Refused(SOFTWARE, "eval is not supported")
    return str(values[found[2]])


IDIOMS: list[tuple[re.Pattern[str], Callable[[Call, re.Match[str]], str]]] = [
    (SET_ALARM, set_alarm),
    (CLEAR_ALARM, clear_alarm),
    (SET_CHANNEL_MAX, set_channel_max),
    (SET_LOOPBACK_USERS, set_loopback_users),
    (GET_ENV, get_env),
]


def evaluate(call: Call) -> str:
    expression = SPACE.sub("", call.arguments[0])
    for pattern, evaluated in IDIOMS:
        found = pattern.fullmatch(expression)
        if found is not None:
            return evaluated(call, found)
    raise Refused(SOFTWARE, "eval is not supported")


COMMANDS: dict[str, Handler] = {"eval": evaluate}
