"""The keys of the log: its outputs, their levels and forms."""

from __future__ import annotations

from ..config import LOG_LEVELS
from ..key import Key
from ..value_types import Boolean, Choice, FileName, FilePath, Integer, Size, Words

LEVELS = Choice(LOG_LEVELS)
FORMS = Choice({"plaintext": "human", "json": "json"})
TIMES = Words("rfc3339_space", "rfc3339_T", "epoch_secs", "epoch_usecs", "lager_default")
CATEGORIES = ("connection", "channel", "queue", "federation", "user")

# All of these can change while the broker runs, except log.exchange.
LOG = (
    Key("log.console", Boolean(), "log.console", "standard error"),
    Key("log.console.level", LEVELS, "log.level", "debug, info, notice, warning, error, critical, none"),
    Key("log.console.formatter", FORMS, "log.form", "plaintext or json; default: plaintext on a terminal"),
    Key("log.console.formatter.time_format", TIMES, "log.time", f"or {', '.join(list(TIMES.words)[1:])}"),
    Key("log.dir", FilePath(), "log.dir", "folder of the file; default: the working directory"),
    Key("log.file", FileName(), "log.file", "a name, or false: no file"),
    Key("log.file.level", LEVELS, "log.file_level", "as of the console"),
    Key("log.file.formatter", FORMS, "log.file_form", "plaintext or json"),
    Key("log.file.formatter.time_format", TIMES, "log.file_time", "as of the console"),
    Key("log.file.rotation.size", Size(), "log.file_rotation_bytes", "bytes; the next line begins a new file"),
    Key("log.file.rotation.count", Integer(), "log.file_rotation_count", "old files that are kept"),
    Key("log.exchange", Boolean(), "log.exchange", "amq.rabbitmq.log of the default virtual host"),
    Key("log.exchange.level", LEVELS, "log.exchange_level", "as of the console"),
    Key("log.exchange.formatter", FORMS, "log.exchange_form", "plaintext or json"),
    *(
        Key(f"log.{category}.level", LEVELS, f"log.levels.{category}", "of these lines, in every output")
        for category in CATEGORIES
    ),
)
