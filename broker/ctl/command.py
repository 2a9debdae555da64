"""A command of `warrenctl`, defined by its usage line, which is also what its help prints:

set_policy [--vhost <vhost>] [--priority <priority>] [--apply-to <apply-to>] <name> <pattern> <definition>
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from .request import Request

Banner = Callable[[Request], str]

ANY_NODE = "rabbit@localhost"  # accepted for every node
SHORT = {"vhost": "-p", "if-empty": "-e", "if-unused": "-u", "pid": "-P", "number": "-N", "duration": "-d", "all": "-a"}
LISTING = "[--no-table-headers]"

OPTION = re.compile(r"\[--([a-z-]+)( <[^>]+>)?\]")
ARGUMENT = re.compile(r"(\[?)<([^>]+)>(, \.\.\.|\.\.\.)?")


class Command:
    """A command: usage, description, banner, timeout, default format and short options.

    `banner` is the line before the result: a function, or a text with placeholders: arguments by position, `{vhost}`
    and `{node}`. `after` is the line after it. `short` replaces the short options that the other commands have.
    """

    __slots__ = (
        *("name", "usage", "about", "banner", "after", "timeout_s", "format", "short"),
        *("values", "flags", "least", "most"),
    )

    def __init__(
        self,
        usage: str,
        about: str,
        banner: str | Banner = "",
        after: str = "",
        timeout_s: float | None = None,
        format: str = "table",
        short: Mapping[str, str] = SHORT,
    ) -> None:
        self.name, _, rest = usage.partition(" ")
        self.usage = usage
        self.about = about
        self.banner = banner
        self.after = after
        self.timeout_s = timeout_s
        self.format = format
        self.short = short
        options = OPTION.findall(rest)
        self.values = [name for name, value in options if value]
        self.flags = [name for name, value in options if not value]
        arguments = ARGUMENT.findall(OPTION.sub("", rest))
        self.least = sum(not optional for optional, _, _ in arguments)
        self.most: int | None = None if any(dots for _, _, dots in arguments) else len(arguments)

    def banner_of(self, request: Request) -> str:
        if callable(self.banner):
            return self.banner(request)
        return self.banner.format(*request.arguments, vhost=request.vhost_name, node=request.node)
