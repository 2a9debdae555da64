"""The command `warren migrate`: its options."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace

from warren.broker.plugin import Command

LINKS = 500


def positive(text: str) -> int:
    """Parse a positive integer."""
    if not text.isdecimal() or not int(text):
        raise ArgumentTypeError(f"{text!r} is no positive number")
    return int(text)


class Migrate(Command):
    about = "move definitions and messages from a RabbitMQ or a Warren to another one, while clients move"

    def add_options(self, parser: ArgumentParser) -> None:
        about = "the HTTP API of the old broker: http://USER:PASSWORD@HOST:15672, the user an administrator"
        parser.add_argument("--from", metavar="URL", dest="source", required=True, help=about)
        about = "the HTTP API of the new broker; default: the Warren that runs on this machine (--data)"
        parser.add_argument("--to", metavar="URL", help=about)
        parser.add_argument("--data", metavar="DIR", default="./data", help="its data folder; default ./data")
        about = (
            "where the new broker reaches the old one: amqp://USER:PASSWORD@HOST; default: as --from, by its listener"
        )
        parser.add_argument("--amqp", metavar="URI", help=about)
        for option, which in (("--from-password-file", "--from"), ("--to-password-file", "--to")):
            parser.add_argument(option, metavar="FILE", default="", help=f"a file with the password of {which}")
        about = "migrate only this virtual host; may be repeated"
        parser.add_argument("--vhost", metavar="NAME", action="append", default=[], help=about)
        about = "print what would be moved, what would change and what the target cannot have, and leave"
        parser.add_argument("--dry-run", action="store_true", help=about)
        parser.add_argument("--definitions-only", action="store_true", help="move no messages")
        about = "end when all queues are empty, although clients are still connected to the old broker"
        parser.add_argument("--once", action="store_true", help=about)
        about = "continue although the target cannot have everything, without what it cannot have"
        parser.add_argument("--leave-out", action="store_true", help=about)
        about = f"the most queues that are moved at the same time; default {LINKS}"
        parser.add_argument("--links", metavar="COUNT", type=positive, default=LINKS, help=about)
        about = "end with status 75 after this time; the links stay and continue"
        parser.add_argument("--timeout", metavar="SECONDS", type=positive, help=about)
        parser.add_argument("--stop", action="store_true", help="remove the links of an earlier run, and leave")

    def run(self, options: Namespace) -> int:
        from .command import run  # imports the HTTP client, which other commands do not need

        return run(options)
