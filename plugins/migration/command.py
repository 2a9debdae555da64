"""The work of the command `warren migrate`: the plan, and the move of definitions and messages."""

import html
import re
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from warren.broker.core.policies.upstream_parameters import URI_LIMIT
from warren.broker.core.policies.upstream_parameters import uri_fault as term_of_fault
from warren.broker.ctl.api_client import API, PORTS, LocalAPI, password_of
from warren.broker.ctl.errors import UNAVAILABLE, USAGE, APIError, ExitError, Unreachable
from warren.broker.plugin import command_failed
from warren.broker.standard_streams import printable

from .brokers import REQUEST_S, Broker
from .migration import LOOK_S, Migration, Options
from .movers import Drains, Mover, Shovels
from .plan import Plan
from .progress import Display

failed = partial(command_failed, "migrate")
INTERRUPTED = 130
NOT_AUTHORIZED = 401  # of HTTP
WRONG_LOGIN = {"not_authorized", "Login failed"}  # the error for it and not for a missing tag; RabbitMQ 3's reason
OPTIONS = (("--url:", "--from or --to:"), ("--password-file", "--from-password-file or --to-password-file"))
AGAIN_S = 1.0  # the time in which another run makes its links again
NAMES_SHOWN = 20  # the maximum of queues that a dry run prints


def run(options: Namespace) -> int:
    """Run the command; return the exit status."""
    try:
        return migrate(options)
    except ExitError as error:
        text = error.text.removeprefix("warrenctl: ")
        for word, ours in OPTIONS:
            text = text.replace(word, ours)
        return failed(text, error.status)
    except APIError as error:
        reason = " ".join(html.unescape(error.reason).split())  # some routes escape it for browsers
        if error.status != NOT_AUTHORIZED:
            return failed(f"a broker refuses: {reason}", UNAVAILABLE)
        if {error.error, reason} & WRONG_LOGIN:
            return failed("a broker refuses user or password: check those of --from and --to", UNAVAILABLE)
        advice = "both users need the tag administrator (warrenctl set_user_tags)"
        return failed(f"a broker refuses the user: {reason}: {advice}", UNAVAILABLE)
    except (Unreachable, TimeoutError) as error:
        return failed(f"no broker answers: {error}; start it, or check --from, --to and --data", UNAVAILABLE)
    except KeyboardInterrupt:
        return failed("interrupted; the links stay and continue (--stop removes them)", INTERRUPTED)


def migrate(options: Namespace) -> int:
    """Run the command; return the exit status. Raises ExitError, APIError, Unreachable, TimeoutError."""
    if options.amqp is not None and (fault := uri_fault(options.amqp)):
        raise ExitError(USAGE, f"--amqp: {fault}")
    files = options.from_password_file, options.to_password_file
    for option, url, file in zip(("--from", "--to"), (options.source, options.to), files, strict=True):
        if file and url is None:
            raise ExitError(USAGE, f"{option}-password-file: its password is for {option}, which is not given")
        if file and has_password(url):
            raise ExitError(USAGE, f"{option}-password-file: the URL of {option} has a password too: leave one out")
    connect = partial(API, options.source, REQUEST_S, options.from_password_file)
    source = source_of(connect, options.stop)
    local = partial(LocalAPI, Path(options.data), REQUEST_S)
    target = Broker(local if options.to is None else partial(API, options.to, REQUEST_S, options.to_password_file))
    if source is not None and source.is_same(target):
        raise ExitError(USAGE, "source and target are the same broker: name another one with --to or --data")
    uri = options.amqp or (amqp_uri(source, options.source, options.from_password_file) if source is not None else "")
    if not options.stop and (fault := uri_fault(uri)):
        raise ExitError(USAGE, f"--from: its user and host give no URI for the links ({fault}): name one with --amqp")
    with closing(connect()) as api:
        name = f"migrate-{api.host}-{api.port}"
    mover: Mover = Drains(target, name, uri) if target.is_warren else Shovels(target, name, uri)
    if options.stop and options.dry_run:
        print(f"{len(mover.queues())} links from {source or api.address} to {target} would be removed")
        return 0
    if source is None:
        stop(mover)
        print(f"no link from {api.address} to {target} is left; {api.address} does not answer")
        return 0
    chosen = Options(
        tuple(options.vhost), options.once, options.leave_out, options.links, options.timeout, options.definitions_only
    )
    migration = Migration(source, target, mover, chosen, Display(sys.stdout))
    if options.stop:
        stop(mover, migration)
        print(f"no link from {source} to {target} is left")
        return 0
    for place, broker in (("source", source), ("target", target)):
        broker.check_definitions(place)
    unknown = sorted(set(options.vhost) - source.vhosts()) if options.vhost else []
    if unknown:
        raise ExitError(USAGE, f"--vhost: the source, {source}, has no virtual host '{unknown[0]}': check its name")
    made = migration.plan()
    again = bool(mover.queues())
    if not again:
        migration.compare(made)
    print(f"from {source}\nto   {target}")
    describe(made)
    if options.dry_run:
        describe_queues(source, made)
    migration.require(made)
    if options.dry_run:
        return 0
    migration.import_definitions(made, again)
    if again:
        print("an earlier run is continued: definitions of queues, exchanges and bindings are imported, and no others")
    if options.definitions_only:
        return 0
    check_permissions(source, uri, made)
    migration.move(made)
    print("\n".join(migration.summary()))
    return 0


def source_of(connect: Callable[[], API], stops: bool) -> Broker | None:
    """Return the source, or None if it does not answer and the links are removed. Raises the errors of `Broker`."""
    try:
        return Broker(connect)
    except (Unreachable, TimeoutError):
        if not stops:
            raise
        return None


def stop(mover: Mover, migration: Migration | None = None) -> None:
    """Remove the links of an earlier run. Raises ExitError (69) if another run, which still goes on, makes them again.

    A `migration`, unless its source does not answer, also waits for the end of their connections there.
    """
    linked = bool(mover.queues())
    if migration is not None:
        migration.end()
    else:
        mover.set(())
    if linked:
        time.sleep(LOOK_S + AGAIN_S)
    if linked and mover.queues():
        raise ExitError(UNAVAILABLE, "another run of this command makes the links again: end it, and stop once more")


def has_password(url: str) -> bool:
    try:
        return urlsplit(url).password is not None
    except ValueError:  # its use reports that this is no URL
        return False


def uri_fault(uri: str) -> str:
    """Return the fault of a URI of the source, without parts of the URI, or an empty string."""
    if not uri.lower().startswith(("amqp://", "amqps://")):
        return "not an amqp:// or amqps:// URI"
    if len(uri) > URI_LIMIT:
        return f"longer than {URI_LIMIT} characters"
    term = term_of_fault(uri)
    if term:
        what = re.sub(r"\W+", " ", term.replace("_", " ")).strip()
        return f"not a URI of AMQP: {what} (signs such as / and @ are percent-encoded in a password)"
    return "" if urlsplit(uri).hostname else "it names no host"


def amqp_uri(source: Broker, url: str, password_file: str) -> str:
    """Return the URI by which the links reach the source, with user, password and host of its HTTP API."""
    parts = urlsplit(url)
    user, password = parts.username or "guest", parts.password
    if password is None:
        is_guest = parts.username is None and not password_file
        where = f"{parts.hostname}:{parts.port or PORTS[parts.scheme]}"
        password = "guest" if is_guest else quote(password_of(password_file, unquote(user), where), safe="")
    host = parts.hostname or ""
    return source.amqp_uri(f"{user}:{password}", f"[{host}]" if ":" in host else host)


def check_permissions(source: Broker, uri: str, made: Plan) -> None:
    """Raise ExitError (69) if the user of the links may not read a queue of the old broker."""
    user = unquote(urlsplit(uri).username or "guest")
    closed = source.unreadable(user, made.queues)
    if closed:
        first = f"'{closed[0].name}' in vhost '{closed[0].vhost}'"
        others = f" and {len(closed) - 1} more" if len(closed) > 1 else ""
        lacks = f"user '{user}' has no read permission at the old broker"
        raise ExitError(UNAVAILABLE, f"{lacks} for queue {first}{others}")


def describe(made: Plan) -> None:
    """Print the plan, its changes, and the missing objects."""
    parts = [(name, part) for name, part in made.document.items() if isinstance(part, list) and part]
    sections = ", ".join(f"{len(part)} {name.replace('_', ' ')}" for name, part in parts)
    print(f"definitions: {sections or 'none'}")
    for title, lines in (("left out", made.changes), ("cannot be had there", made.missing)):
        if lines:
            print(f"{title}:")
            print("".join(f"  {printable(line)}\n" for line in lines), end="")


def describe_queues(source: Broker, made: Plan) -> None:
    """Print the queues with messages."""
    states = source.queues()
    there = [(name, states[name]) for name in made.queues if name in states]
    full = sorted([one for one in there if one[1].ready + one[1].unacked], key=lambda one: -one[1].ready)
    ready, unacked = sum(state.ready for _, state in full), sum(state.unacked for _, state in full)
    print(f"messages: {ready:,} ready, {unacked:,} unacked, in {len(full)} queues")
    for name, state in full[:NAMES_SHOWN]:
        queue = printable(f"queue '{name.name}' in vhost '{name.vhost}'")
        print(f"  {queue}: {state.ready:,} ready, {state.unacked:,} unacked")
    if len(full) > NAMES_SHOWN:
        print(f"  and {len(full) - NAMES_SHOWN} more")
