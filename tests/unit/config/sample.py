"""The reference of all keys, docker/rabbitmq.conf.example: `python -m tests.unit.config.sample` prints it."""

from warren.broker.config.keys import ANY, NONE, SECTIONS, Key
from warren.broker.config.printing import DEFAULTS, lines_of

OF_THIS_MACHINE = ("warren.node",)
DOC_COLUMN = 58
HEAD = (
    "# Every key that Warren follows, in a comment, with its default. Sizes may have a unit: kB, MB, GB of 1000; k,",
    "# KiB, M, MiB of 1024. Without a configuration the broker listens on loopback; guest may log in from there only.",
)


def text() -> str:
    """Return each key in a comment, with its default if it has one."""
    lines = list(HEAD)
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
