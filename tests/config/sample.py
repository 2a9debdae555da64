"""The part of docker/rabbitmq.conf that lists every key: `python -m tests.config.sample` prints it."""

from broker.config.http_keys import MANAGEMENT_KEYS, PROMETHEUS_KEYS
from broker.config.key import ANY, NONE, Key
from broker.config.keys import ACCESS, LIMITS, LISTENERS, LOG, OBJECTS, OWN, RESOURCES
from broker.config.printing import DEFAULTS, lines_of
from broker.config.throughput_keys import THROUGHPUT_KEYS
from broker.config.tls_keys import tls_keys

SECTIONS: tuple[tuple[str, tuple[Key, ...]], ...] = (
    ("Listeners", LISTENERS),
    ("TLS, for listeners.ssl", tls_keys("ssl_options", "ssl_options")),
    ("Limits", LIMITS),
    ("Users and logins", ACCESS),
    ("Memory and disk", RESOURCES),
    ("Definitions, queues, names", OBJECTS),
    ("Log", LOG),
    ("Warren's own", OWN),
    ("HTTP API; the user interface is still to come", MANAGEMENT_KEYS),
    ("Metrics, for Prometheus", PROMETHEUS_KEYS),
    ("Throughput export, with the extra `analytics`", THROUGHPUT_KEYS),
)
OF_THIS_MACHINE = ("warren.node",)
DOC_COLUMN = 58


def text() -> str:
    """Each key in a comment, with its default where it has one."""
    lines: list[str] = []
    for title, keys in SECTIONS:
        lines += ["", f"## {title}"]
        for key in keys:
            lines += [f"{line:{DOC_COLUMN - 1}} # {key.doc}".rstrip() for line in of_key(key)]
    return "\n".join(lines) + "\n"


def of_key(key: Key) -> list[str]:
    name = ".".join(key.path).replace(ANY, "NAME")
    if key.shape == NONE:
        return [f"# {name} = none"]
    lines = lines_of(key, DEFAULTS) if key.field and name not in OF_THIS_MACHINE else []
    return [f"# {line}" for line in lines if not line.startswith("#")] or [f"# {name} ="]


if __name__ == "__main__":
    print(text(), end="")
