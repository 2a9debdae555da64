"""The manual pages, made of the commands' own help and the list of keys: `python -m tests.unit.system.pages`.

It writes the files of `broker/system/man/`, which the wheel brings to share/man. docutils makes roff of the text.
"""

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path

from docutils.core import publish_string
from docutils.writers.manpage import Writer

from tests.support.checkout import ROOT
from tests.unit.config.sample import of_key
from warren.broker import cli
from warren.broker.config.keys import SECTIONS
from warren.broker.ctl.command_line import WHERE
from warren.broker.ctl.commands import GROUPS
from warren.broker.plugin_host.loading import load_commands

FOLDER = ROOT / "broker" / "system" / "man"
STATUSES = (
    (0, "stopped as asked, or a result without faults"),
    (64, "wrong command line"),
    (69, "an address, the data folder or another broker cannot be used"),
    (70, "a plugin cannot be loaded, or a vital task failed"),
    (73, "another broker uses the data folder"),
    (74, "a write to the disk or to the standard output failed, or PostgreSQL could not be reached for long"),
    (75, "another broker has taken over the store on PostgreSQL"),
    (76, "PostgreSQL has lost transactions that were confirmed"),
    (78, "invalid configuration"),
    (141, "the reader of the standard output has closed it"),
)


def page(name: str, section: int, about: str, parts: Mapping[str, Iterable[str]]) -> str:
    """Return a page in roff; each part has a title, and its lines of reStructuredText."""
    lines = [name, "=" * len(name), "", about, "-" * len(about), ""]
    lines += [f":Manual section: {section}", ":Manual group: Warren", ""]
    for title, text in parts.items():
        lines += [title, "~" * len(title), "", *text, ""]
    roff: bytes = publish_string(
        "\n".join(lines), writer=Writer(), settings_overrides={"generator": False, "datestamp": None}
    )
    return roff.decode()


def plain(text: str) -> str:
    """Escape what reStructuredText would take for markup."""
    for sign in ("\\", "*", "`", "|", "_"):
        text = text.replace(sign, "\\" + sign)
    return text


def definition(term: str, text: str) -> list[str]:
    return [f"**{plain(term)}**", f"    {plain(text)}", ""]


def option(action: argparse.Action) -> list[str]:
    """Return an option or argument with its help."""
    value = f" {action.metavar or ''}".rstrip() if action.nargs != 0 else ""
    term = ", ".join(f"{name}{value}" for name in action.option_strings) or str(action.metavar)
    return definition(term, (action.help or "").replace("%%", "%"))


def commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the commands of a parser by their whole names, those of commands included."""
    found: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in dict.fromkeys(action.choices.values()):
                found |= commands(each) or {each.prog: each}
    return found


def warren() -> str:
    parser = cli.parser(load_commands(cli.OURS))
    parts: dict[str, list[str]] = {
        "SYNOPSIS": ["**warren** *COMMAND* [*OPTIONS*]", "", "**warren** --version"],
        "DESCRIPTION": [
            "Warren is a message broker: AMQP 0-9-1, with the replies, errors and extensions of RabbitMQ.",
            "**warren serve** runs a broker in the foreground; **warrenctl**\\ (8) operates it.",
            "The configuration is described in **warren.conf**\\ (5).",
        ],
    }
    for name, each in commands(parser).items():
        about = each.description or ""
        text = [plain(f"{about[:1].upper()}{about[1:]}."), ""]
        for action in each._actions:
            if action.dest != "help":
                text += option(action)
        parts[name.upper()] = text
    parts["EXIT STATUS"] = [line for status, text in STATUSES for line in definition(str(status), text)]
    parts["SEE ALSO"] = ["**warrenctl**\\ (8), **warren.conf**\\ (5)"]
    return page("warren", 1, "an AMQP 0-9-1 broker", parts)


def warrenctl() -> str:
    parts: dict[str, list[str]] = {
        "SYNOPSIS": ["**warrenctl** [--node *NODE*] [--timeout *SECONDS*] [--quiet] *COMMAND* [*OPTIONS*]"],
        "DESCRIPTION": [
            "Operates a broker with the commands of rabbitmqctl, rabbitmq-diagnostics and rabbitmq-plugins,",
            "over a unix socket in its data folder or its HTTP API.",
            "Options may come before the command or after it.",
        ],
        "OPTIONS": [line for text in WHERE for line in definition(*(part.strip() for part in text.split("   ", 1)))],
    }
    for title, group in GROUPS.items():
        each = sorted(group, key=lambda command: command.name)
        parts[title.upper()] = [line for command in each for line in definition(command.usage, command.about)]
    parts["SEE ALSO"] = ["**warren**\\ (1), **warren.conf**\\ (5)"]
    return page("warrenctl", 8, "operate a Warren broker", parts)


def configuration() -> str:
    parts: dict[str, list[str]] = {
        "DESCRIPTION": [
            "**warren serve --config** *FILE* reads a rabbitmq.conf: one KEY = VALUE a line, # begins a comment.",
            "Each key is listed with its default, if it has one.",
            "Sizes may have a unit: kB, MB, GB of 1000; k, KiB, M, MiB of 1024.",
        ]
    }
    for title, keys in SECTIONS:
        lines = [(line.removeprefix("# "), key.doc) for key in keys for line in of_key(key)]
        parts[title.upper()] = [line for term, text in lines for line in definition(term, text)]
    parts["SEE ALSO"] = ["**warren**\\ (1), **warrenctl**\\ (8)"]
    return page("warren.conf", 5, "the configuration of a Warren broker", parts)


PAGES = {"warren.1": warren, "warrenctl.8": warrenctl, "warren.conf.5": configuration}

if __name__ == "__main__":
    for name, text in PAGES.items():
        Path(FOLDER, name).write_text(text(), encoding="utf-8")
