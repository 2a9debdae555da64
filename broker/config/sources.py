"""The sources of a configuration. Their precedence: option, variable, conf.d, file, default."""

import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence

from ..system_errors import file_error, read_text
from . import environment as variables
from . import rabbitmq_conf, toml
from .builder import ConfigBuilder
from .config import Address, Config
from .keys import KEYS
from .rabbitmq_conf import path_of
from .setting import ConfigError, Setting
from .value_types import Listener, parse_address

STOCK_NAME = "rabbitmq.conf"  # a file with this name has a folder conf.d beside it

ADVANCED_NAME = "advanced.config"  # a file of RabbitMQ with Erlang terms, beside rabbitmq.conf
ADVANCED_VARIABLE = "RABBITMQ_ADVANCED_CONFIG_FILE"
UNREADABLE = "?"
ADVANCED_SHOWN = 5  # settings of it that have a key, in the warning
# name in it -> key, or the beginning of keys
ADVANCED_KEYS = {
    **{key.path[0]: key.path[0] for key in KEYS},
    "tcp_listeners": "listeners.tcp.default",
    "ssl_listeners": "listeners.ssl.default",
}

COMMAND_LINE = "command line"  # begins the origin of an option's value

# option of the command line -> key
OPTIONS = {
    "amqp": "listeners.tcp",
    "amqps": "listeners.ssl",
    "http": "management.tcp",
    "metrics": "prometheus.tcp.listener",
    "node": "warren.node",
    "cluster_name": "cluster_name",
    "data_dir": "warren.data_dir",
    "memory": "warren.memory",
    "sync": "warren.sync",
    "store": "storage.url",
    "log_level": "log.console.level",
}


class Sources:
    """The file `path`, options of the command line (`flags`, by the names of OPTIONS; repeatable ones are lists), and
    the environment. After `load`: `files` were read, `warnings` are for the operator, `origins` has the place of each
    field of the configuration that was set.
    """

    __slots__ = ("files", "warnings", "origins", "_path", "_flags", "_environment")

    def __init__(
        self,
        path: str | None = None,
        flags: Mapping[str, object] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.files: list[str] = []
        self.warnings: list[str] = []
        self.origins: dict[str, str] = {}
        self._environment = os.environ if environment is None else environment
        self._path = path or self._environment.get("RABBITMQ_CONFIG_FILE") or None
        self._flags = flags or {}

    def load(self) -> Config:
        """Read all sources. Raises ConfigError."""
        builder = ConfigBuilder()
        self.files = self._find_files()
        for name in self.files:
            builder.add_all(self._parsed(name))
        builder.add_all(variables.settings(self._environment))
        builder.add_all(self._options())
        ignored = variables.ignored(self._environment)
        self.warnings = builder.warnings + [f"environment: {', '.join(ignored)}: ignored"] * bool(ignored)
        self.warnings += self._advanced()
        self.origins = builder.origins
        return builder.config(variables.defaults(self._environment))

    def _find_files(self) -> list[str]:
        """Return the file, then those of conf.d by name."""
        files = [] if self._path is None else [with_suffix(self._path)]
        more = self._environment.get("RABBITMQ_CONFIG_FILES", "")
        if not more and files and os.path.basename(files[0]) == STOCK_NAME:
            more = os.path.join(os.path.dirname(files[0]), "conf.d")
        if not more:
            return files
        pattern = os.path.join(glob.escape(more), "*.conf") if os.path.isdir(more) else more
        return files + sorted(glob.glob(pattern))

    def _advanced(self) -> list[str]:
        """Return a warning if there is an advanced.config with settings, which RabbitMQ would read."""
        path = self._environment.get(ADVANCED_VARIABLE, "")
        if not path and self.files and os.path.basename(self.files[0]) == STOCK_NAME:
            path = os.path.join(os.path.dirname(self.files[0]), ADVANCED_NAME)
        path = with_suffix(path, ".config")
        if not os.path.isfile(path):
            return []
        try:
            terms = re.sub(r"%.*", "", read_text(path))
        except (OSError, UnicodeDecodeError):
            terms = UNREADABLE
        if not terms.strip(" \t\r\n[]."):
            return []
        keys = dict.fromkeys(ADVANCED_KEYS.get(name, "") for name in re.findall(r"\{\s*'?(\w+)'?\s*,", terms))
        such = ", ".join([key for key in keys if key][:ADVANCED_SHOWN])
        advice = (
            f"write its settings to {STOCK_NAME}{f', such as {such}' if such else ''} (docs/migration.md has a table)"
        )
        return [f"{path}: Warren reads no Erlang terms: {advice}"]

    def _parsed(self, name: str) -> Iterator[Setting]:
        try:
            text = read_text(name, "utf-8-sig")
        except OSError as error:
            raise ConfigError(file_error(error, name)) from None
        except UnicodeDecodeError as error:
            raise ConfigError(f"{name}: not UTF-8: {error.reason} at byte {error.start}") from None
        if name.endswith(".toml"):
            return toml.parse(text, name)
        return rabbitmq_conf.parse(text, name, self._environment)

    def _options(self) -> Iterator[Setting]:
        for option, value in self._flags.items():
            origin = f"{COMMAND_LINE}: --{'data' if option == 'data_dir' else option.replace('_', '-')}"
            path = path_of(OPTIONS[option])
            if option == "http":
                host, port = self._address(value, origin)
                yield Setting((*path, "ip"), host, origin)
                yield Setting((*path, "port"), str(port), origin)
            elif option == "metrics":
                yield Setting(path, Listener().write(self._address(value, origin)), origin)
            elif isinstance(value, Sequence) and not isinstance(value, str):
                for number, text in enumerate(value, 1):
                    address = Listener().write(self._address(text, origin))
                    yield Setting((*path, str(number)), address, origin, replaces=number == 1)
            else:
                yield Setting(path, str(value).lower() if isinstance(value, bool) else str(value), origin)

    def _address(self, text: object, origin: str) -> Address:
        """Return the address of an option; that of a port alone is the default address of AMQP. Raises ConfigError."""
        try:
            return parse_address(str(text), variables.defaults(self._environment).listeners_tcp[0][0])
        except ValueError as error:
            raise ConfigError(f"{origin}: {error}") from None


def with_suffix(path: str, suffix: str = ".conf") -> str:
    """Add the suffix to the name of a file that only exists with it, as RabbitMQ does."""
    return path if os.path.exists(path) or not os.path.exists(path + suffix) else path + suffix
