"""RabbitMQ's file of enabled plugins, an Erlang list such as `[rabbitmq_management,rabbitmq_federation].`

All plugins of a node are enabled here, so the file changes nothing; but a node cannot replace one that lacks something.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection

from ..system_errors import read_text

VARIABLE = "RABBITMQ_ENABLED_PLUGINS_FILE"
COMMENT = re.compile(r"%.*")
NAME = re.compile(r"[a-z]\w*")


def missing_plugins(known: Collection[str]) -> list[str]:
    """Return the plugins in the file that the environment names, if it exists, without those that are known."""
    try:
        text = read_text(os.environ.get(VARIABLE, ""))
    except (OSError, UnicodeDecodeError):
        return []
    return [name for name in NAME.findall(COMMENT.sub("", text)) if name not in known]
