"""The configuration: what files, environment and command line say, checked as a whole and handed out as values."""

from .errors import ConfigError
from .kinds import parse_address
from .sources import Sources
from .values import NO_LOGIN, Config, HTTPListener, Links, Management, Prometheus, SSLOptions, Throughput, default_node

__all__ = [
    "NO_LOGIN",
    "Config",
    "ConfigError",
    "HTTPListener",
    "Links",
    "Management",
    "Prometheus",
    "SSLOptions",
    "Sources",
    "Throughput",
    "default_node",
    "parse_address",
]
