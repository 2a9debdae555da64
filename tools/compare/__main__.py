"""`python -m tools.compare`: compare a Warren started here with a running RabbitMQ 4, and print the differences."""

import argparse
import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from . import ctl_part, http_part, model_part
from .brokers import Broker, NoAnswer, tools_of, warren
from .documents import Difference
from .report import Totals, lines_of

PARTS = ("http", "amqp", "ctl")
HISTORIES = 56  # of the model's part: five minutes
HOW = (
    "a RabbitMQ 4 with the plugins management, federation, federation_management, consistent_hash_exchange and "
    "prometheus: docker run -p 5674:5672 -p 15674:15672 rabbitmq:4.0-management, or Debian 13's rabbitmq-server"
)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    env = os.environ.get
    parser = argparse.ArgumentParser(prog="make compare ARGS=", description=__doc__, epilog=f"The reference is {HOW}.")
    parser.add_argument("--amqp", default=env("RABBITMQ_AMQP", "127.0.0.1:5674"), help="the reference's AMQP address")
    parser.add_argument("--http", default=env("RABBITMQ_HTTP", "127.0.0.1:15674"), help="its HTTP API's address")
    parser.add_argument("--user", default=env("RABBITMQ_USER", "guest"), help="an administrator of it")
    parser.add_argument("--password", default=env("RABBITMQ_PASSWORD", "guest"))
    parser.add_argument(
        "--rabbitmqctl", default=env("RABBITMQCTL", ""), help="its command line, as 'docker exec broker rabbitmqctl'"
    )
    parser.add_argument("--only", action="append", choices=PARTS, help="compare this part alone; may be repeated")
    parser.add_argument(
        "--model", nargs="?", type=int, const=HISTORIES, metavar="COUNT",
        help=f"compare this many histories of sessions with the model alone, {HISTORIES} by default",
    )  # fmt: skip
    parser.add_argument("--all", action="store_true", help="list known differences one by one as well")
    return parser.parse_args(arguments)


def reference_of(options: argparse.Namespace) -> Broker:
    """Return the running RabbitMQ. Raises NoAnswer."""
    tools = tools_of(shlex.split(options.rabbitmqctl))
    found = Broker("RabbitMQ", options.http, options.amqp, options.user, options.password, tools)
    answer = found.request("GET", "/overview")
    if answer.status != 200:
        raise NoAnswer(f"RabbitMQ at http://{options.http} lets {options.user} not in: {answer.status} {answer.body}")
    found.names["node"] = answer.body["node"]
    version = str(answer.body["rabbitmq_version"])
    if not version.startswith("4."):
        raise NoAnswer(f"RabbitMQ at http://{options.http} is of version {version}; the reference has to be a 4.x")
    found.connect().close()
    return found


def compare_parts(options: argparse.Namespace, reference: Broker) -> tuple[int, list[Difference], list[str]]:
    """Return the number of compared answers, the differences, and the parts left out with the reason."""
    if options.model is not None:
        return *model_part.run(reference, options.model), []
    parts, left_out = options.only or PARTS, []
    count, found = 0, []
    with tempfile.TemporaryDirectory() as folder, warren(Path(folder)) as ours:
        if "http" in parts:
            comparison = http_part.run(ours, reference)
            count, found = count + comparison.compared, found + comparison.found
        if "amqp" in parts:
            try:
                from . import amqp_part
            except ImportError as error:
                left_out.append(f"AMQP: {error}")
            else:
                number, differences = amqp_part.run(ours, reference)
                count, found = count + number, found + differences
        if "ctl" in parts and reference.tools:
            number, differences = ctl_part.run(ours, reference)
            count, found = count + number, found + differences
        elif "ctl" in parts:
            left_out.append("the command line: --rabbitmqctl does not say how to run the reference's")
    return count, found, left_out


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit status: 0 without new differences, 1 with some, 2 without a reference."""
    options = parse(arguments)
    try:
        reference = reference_of(options)
        count, found, left_out = compare_parts(options, reference)
    except NoAnswer as error:
        print(f"{error}\nThe comparison needs {HOW}; --amqp, --http, --user and --password name it.", file=sys.stderr)
        return 2
    totals = Totals.of(count, found)
    print("\n".join(lines_of(totals, options.all)))
    for line in left_out:
        print(f"LEFT OUT: {line}")
    return 1 if totals.new else 0


if __name__ == "__main__":
    sys.exit(main())
