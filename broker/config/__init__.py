"""The configuration: read from files, environment and command line, checked as a whole, and provided as a Config."""

from .config import (
    NO_LOGIN,
    Config,
    HTTPListener,
    Links,
    Management,
    MessageLogExport,
    Prometheus,
    SSLOptions,
    default_node,
)
from .setting import ConfigError
from .sources import COMMAND_LINE, Sources
from .value_types import parse_address

__all__ = [
    "COMMAND_LINE",
    "NO_LOGIN",
    "Config",
    "ConfigError",
    "HTTPListener",
    "Links",
    "Management",
    "MessageLogExport",
    "Prometheus",
    "SSLOptions",
    "Sources",
    "default_node",
    "parse_address",
]
