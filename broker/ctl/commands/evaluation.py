"""`eval` for the few Erlang expressions that the test suites of RabbitMQ clients use."""

from __future__ import annotations

import re
from collections.abc import Callable

from ..answers import CommandError
from ..api_client import NotFound
from ..exit_status import SOFTWARE
from .call import Call, Handler

SPACE = re.compile(r"\s+")
SET_ALARM = re.compile(r"rabbit_alarm:set_alarm\(\{\{resource_limit,(\w+),node\(\)\},\[\]\}\)\.?")
SET_CHANNEL_MAX = re.compile(r"application:set_env\(rabbit,channel_max,(\d{1,9})\)\.?")
SET_LOOPBACK_USERS = re.compile(r"application:set_env\(rabbit,loopback_users,\[(.*)\]\)\.?")
NAME = re.compile(r'<<"([^"]*)">>')
GET_ENV = re.compile(r"\{ok,(\w+)\}=application:get_env\(rabbit,(\w+)\),\1\.?")
CLEAR_ALARM = re.compile(r"rabbit_alarm:clear_alarm\(\{resource_limit,(\w+),node\(\)\}\)\.?")


def unsupported() -> CommandError:
    return CommandError(SOFTWARE, "eval is not supported")


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


def set_channel_max(call: Call, match: re.Match[str]) -> str:
    call.api.put("warren", "settings", body={"channel_max": int(match[1])})
    return "ok"


def set_loopback_users(call: Call, match: re.Match[str]) -> str:
    call.api.put("warren", "settings", body={"loopback_users": NAME.findall(match[1])})
    return "ok"


def get_env(call: Call, match: re.Match[str]) -> str:
    settings = call.api.get("warren", "settings")
    if match[2] not in settings:
        raise unsupported()
    value = settings[match[2]]
    return "[" + ",".join(f'<<"{name}">>' for name in value) + "]" if isinstance(value, list) else str(value)


IDIOMS: list[tuple[re.Pattern[str], Callable[[Call, re.Match[str]], str]]] = [
    (SET_ALARM, set_alarm),
    (CLEAR_ALARM, clear_alarm),
    (SET_CHANNEL_MAX, set_channel_max),
    (SET_LOOPBACK_USERS, set_loopback_users),
    (GET_ENV, get_env),
]


def evaluate(call: Call) -> str:
    """Raises CommandError (70) for any other expression."""
    expression = SPACE.sub("", call.arguments[0])
    for pattern, handler in IDIOMS:
        match = pattern.fullmatch(expression)
        if match is not None:
            return handler(call, match)
    raise unsupported()


COMMANDS: dict[str, Handler] = {"eval": evaluate}
