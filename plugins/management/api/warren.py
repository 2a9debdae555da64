"""Routes under /api/warren, which RabbitMQ's HTTP API does not have."""

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any, Literal

import msgspec

from warren.broker.amqp.table_json import json_of_table
from warren.broker.config import ConfigError
from warren.broker.config.config import LOG_LEVELS
from warren.broker.core.access.passwords import ARGON2ID, DIGESTS
from warren.broker.core.definitions.exporter import IMPORTED_HASH
from warren.broker.core.definitions.files import parse_json
from warren.broker.core.metadata.patterns import query_pattern
from warren.broker.core.metadata.unfinished_import import (
    ADVICE,
    INTERRUPTED,
    UNFINISHED_IMPORT,
    digest_of,
    was_interrupted,
)
from warren.broker.core.metadata.validation import LARGEST
from warren.broker.core.telemetry.resource_alarms import RESOURCES
from warren.broker.operator.definition_import import Undecoded
from warren.broker.plugin import Exchange, Invalid, Queue, Table
from warren.broker.product import distribution_version
from warren.broker.system_errors import file_error

from ...http.auth import ADMIN, LOCAL, POLICIES, verify_password
from ...http.responses import HTTPError, Response, bad, done, missing, not_now, ok
from ..framework.byte_stream import ByteStream
from ..framework.line_stream import NDJSON, LineStream
from ..framework.request import Request
from ..framework.router import route
from .bindings import unbound
from .definitions import check_depth, check_shape
from .policies import PolicyView, policy_view
from .queues import resumed
from .users import check_protected, find_user

PLUGINS_DIR = str(Path(__file__).parents[2])
FRACTION_LIMIT = 1_000_000  # as warrenctl has it
CHANNELS = 65_535  # the maximum of connection.tune
DEFAULT_LINES = 50
LINES = "text/plain; charset=utf-8"
TAR = "application/x-tar"
MOMENT_S = 60.0  # for the journal to write what is before the moment of a backup
DOCUMENT_LIMIT = 256 << 20  # bytes of definitions


class ListenersBody(msgspec.Struct):
    state: Literal["running", "suspended", "drained"]


class ApplicationBody(msgspec.Struct):
    state: Literal["running", "stopped"]


class LimitBody(msgspec.Struct):
    """A limit in bytes or as a fraction of the machine's memory."""

    bytes: int | None = None
    fraction: float | None = None


class LogBody(msgspec.Struct):
    level: str


class ConfigChange(msgspec.Struct):
    """A key of the configuration whose value differs; the values of a secret are empty."""

    key: str
    running: str
    configured: str
    needs: Literal["reload", "restart"]


class SettingsBody(msgspec.Struct):
    """Settings left out stay unchanged."""

    channel_max: int | None = None
    loopback_users: list[str] | None = None


class WarrenNodeView(msgspec.Struct):
    """A node, as `warrenctl` needs to know it."""

    node: str
    default_vhost: str
    known_plugins: list[str]
    hashing_algorithms: list[str]


class SettingsView(msgspec.Struct):
    """Settings of the node, of which `channel_max` and `loopback_users` can change at run time."""

    channel_max: int
    frame_max: int
    heartbeat: int
    loopback_users: list[str]
    plugins_dir: str


class LogView(msgspec.Struct):
    """The level and the outputs of the log."""

    level: str
    locations: list[str]


class LimitsBody(msgspec.Struct):
    value: dict[str, Any]


class CredentialsBody(msgspec.Struct):
    username: str
    password: str


@route("GET", ADMIN, "/warren/node")
def get_node(request: Request) -> Response[WarrenNodeView]:
    """Return name, default virtual host, available plugins and hashing algorithms of the node."""
    node, algorithms = request.node, sorted([*DIGESTS, ARGON2ID])
    return ok(WarrenNodeView(node.name, node.default_vhost, request.host.known_plugins(), algorithms))


# The process and its services.


@route("POST", LOCAL, "/warren/shutdown")
def shut_down(request: Request) -> Response[None]:
    """Stop the node; its connections close when it has stopped."""
    request.host.control.stop()
    return Response(202)


@route("PUT", LOCAL, "/warren/listeners")
async def put_listeners(request: Request, body: ListenersBody) -> Response[None]:
    """Suspend or resume the AMQP listeners, or close all connections too."""
    control = request.host.control
    if body.state == "suspended":
        control.suspend_listeners()
    elif body.state == "drained":
        control.drain()
    elif not await request.complete(control.resume_listeners()):
        raise not_now("cannot listen; the log says why")
    return done()


@route("PUT", LOCAL, "/warren/application")
async def put_application(request: Request, body: ApplicationBody) -> Response[None]:
    """Stop or start everything that serves clients: listeners, services and connections."""
    control = request.host.control
    if body.state == "stopped":
        await request.complete(control.stop_app())
        return done()
    reason = await request.complete(control.start_app())
    if reason:
        raise not_now(reason)
    return done()


@route("POST", LOCAL, "/warren/reset")
def reset(request: Request) -> Response[None]:
    """Delete all stored data and start as a new node; the application must be stopped."""
    control = request.host.control
    if not control.app_is_stopped:
        reason = f"Mnesia is still running on node {request.node.name}: stop it first with stop_app, or delete less:"
        reason += " purge_queue, delete_queue, delete_vhost"
        raise HTTPError(409, "conflict", reason)
    if request.host.imports.under_way:
        raise not_now("an import of definitions is under way")
    control.reset()
    return done()


# Limits, alarms, settings.


@route("GET", ADMIN, "/warren/config/changes")
async def config_changes(request: Request) -> Response[list[ConfigChange]]:
    """Compare the running configuration with that of a reload or restart now; 400 if that cannot be read."""
    from warren.broker.config.printing import changes  # here, because it is rarely needed

    host = request.host
    running = host.running_config()
    try:
        found = changes(running, await request.wait(asyncio.to_thread(host.control.read_config)))
    except (ConfigError, OSError) as error:
        raise bad(file_error(error) if isinstance(error, OSError) else str(error)) from None
    return ok([ConfigChange(*change, "reload" if change.reloads else "restart") for change in found])


@route("PUT", ADMIN, "/warren/limits/memory")
def put_memory_limit(request: Request, body: LimitBody) -> Response[None]:
    """Set the memory limit until the next start."""
    request.host.resources.set_vm_memory_high_watermark(limit_bytes(request, body))
    return done()


@route("PUT", ADMIN, "/warren/limits/disk")
def put_disk_limit(request: Request, body: LimitBody) -> Response[None]:
    """Set the limit of free disk space until the next start."""
    request.host.resources.set_disk_free_limit(limit_bytes(request, body))
    return done()


def limit_bytes(request: Request, body: LimitBody) -> int:
    """Return the limit of the body. Raises HTTPError (400)."""
    if body.bytes is not None and body.fraction is None and 0 <= body.bytes <= LARGEST:
        return body.bytes
    if body.fraction is not None and body.bytes is None and 0 <= body.fraction < FRACTION_LIMIT:
        return request.host.resources.share(body.fraction)
    raise bad(f"either bytes should be a number from 0 to {LARGEST}, or fraction one from 0 to {FRACTION_LIMIT}")


@route("PUT", LOCAL, "/warren/alarms/{resource}")
def put_alarm(request: Request) -> Response[None]:
    """Set the alarm of a resource: memory or disk."""
    request.node.alarms.set(resource_of(request))
    return done()


@route("DELETE", LOCAL, "/warren/alarms/{resource}")
def delete_alarm(request: Request) -> Response[None]:
    """Clear the alarm of a resource: memory or disk."""
    request.node.alarms.clear(resource_of(request))
    return done()


def resource_of(request: Request) -> str:
    """Return the resource in the path. Raises HTTPError (404)."""
    name = request.path["resource"]
    if name not in RESOURCES:
        raise missing()
    return name


@route("GET", LOCAL, "/warren/settings")
def get_settings(request: Request) -> Response[SettingsView]:
    """Return the settings that can change at run time, and others that clients negotiate."""
    settings, loopback_users = request.host.settings, sorted(request.node.users.loopback_only)
    negotiated = settings.channel_max, settings.frame_max, settings.heartbeat_s
    return ok(SettingsView(*negotiated, loopback_users, PLUGINS_DIR))


@route("PUT", LOCAL, "/warren/settings")
def put_settings(request: Request, body: SettingsBody) -> Response[None]:
    """Change settings for new connections, until the next start."""
    if body.channel_max is not None:
        if body.channel_max < 0:
            raise bad("channel_max should be a number from 0 on")
        request.host.settings.channel_max = min(body.channel_max, CHANNELS)
    if body.loopback_users is not None:
        request.node.users.loopback_only = frozenset(body.loopback_users)
    return done()


# The log and events.


@route("GET", ADMIN, "/warren/log")
def get_log(request: Request) -> Response[LogView]:
    """Return the level and the outputs of the log."""
    log = request.host.control.log
    return ok(LogView(log.log.level, log.locations()))


@route("PUT", ADMIN, "/warren/log")
def put_log(request: Request, body: LogBody) -> Response[None]:
    """Set the level of all outputs of the log until the next start."""
    level = LOG_LEVELS.get(body.level)
    if level is None:
        raise bad(f"level {body.level} is not supported. Try one of {', '.join(LOG_LEVELS)}")
    try:
        request.host.control.log.set_level(level)
    except OSError as error:
        raise not_now(f"cannot open the log: {error}") from None
    return done()


@route("POST", ADMIN, "/warren/log/rotate")
def rotate_log(request: Request) -> Response[None]:
    """Reopen the log files."""
    try:
        request.host.control.log.rotate()
    except OSError as error:
        raise not_now(f"cannot open the log: {error}") from None
    return done()


@route("GET", ADMIN, "/warren/log/tail")
def tail_log(request: Request) -> Response[dict[str, list[str]]]:
    """Return the last lines of the log."""
    try:
        lines = request.host.control.log.tail(query_integer(request, "lines", DEFAULT_LINES))
    except OSError as error:
        raise not_now(f"cannot read {error.filename}: {error.strerror or error}") from None
    return ok({"lines": lines})


# Streams are few, so pages of other sites may not take them.
@route("GET", ADMIN, "/warren/log/stream", changes=True)
def stream_log(request: Request) -> LineStream:
    """Stream the lines of the log as text."""
    stream = LineStream(LINES, duration_s(request), lambda number: f"({number} more came too fast)")
    log = request.host.control.log
    log.follow(stream.put)
    stream.leave = lambda: log.unfollow(stream.put)
    return stream


@route("GET", ADMIN, "/warren/events", changes=True)
def stream_events(request: Request) -> LineStream:
    """Stream the events of the node, a JSON object in a line each."""
    try:
        pattern = query_pattern(request.query.get("pattern") or ".*")
    except Invalid as error:
        raise bad(error.text) from None
    stream = LineStream(NDJSON, duration_s(request), lambda number: json.dumps({"missed": number}))

    def put_event(name: str, fields: Table) -> None:
        matches = pattern.search(name)
        if matches is None:  # the search took too long
            stream.end()
        if matches:
            stream.put(json.dumps({"event": name, **json_of_table(fields)}, separators=(",", ":")))

    hooks = request.node.events.hooks
    hooks.append(put_event)
    stream.leave = lambda: hooks.remove(put_event)
    return stream


def query_integer(request: Request, name: str, default: int) -> int:
    """Return an integer of the query. Raises HTTPError (400)."""
    text = request.query.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise bad(f"{name} should be a whole number")
    return int(text)


def duration_s(request: Request) -> float | None:
    """Return the duration of a stream; None is unlimited. Raises HTTPError (400)."""
    return float(query_integer(request, "duration", 0)) if "duration" in request.query else None


# Objects.


@route("DELETE", LOCAL, "/warren/queues/{vhost}/{queue}")
async def delete_queue(request: Request) -> Response[dict[str, int]]:
    """Delete a queue, exclusive ones included, and return the number of its ready messages."""
    queue, vhost = await resumed(request), request.path_vhost()
    where = f"Queue '{queue.name}' in vhost '{vhost.name}'"
    if request.flag("if-empty") and queue.stored:
        raise bad(f"{where} is not empty")
    if request.flag("if-unused") and len(queue.consumers):
        raise bad(f"{where} is in use")
    with request.acting():
        messages = vhost.delete_queue(queue)
    await request.complete(unbound(vhost, Queue.kind, queue.name))
    return ok({"messages_ready": messages})


@route("DELETE", LOCAL, "/warren/queues/{vhost}/{queue}/contents")
async def purge_queue(request: Request) -> Response[None]:
    """Drop the ready messages of a queue, exclusive ones included."""
    queue = await resumed(request)
    with request.acting():
        queue.purge()
    return done()


@route("GET", POLICIES, "/warren/matching-policies/{vhost}/{kind}/{name}")
def list_matching_policies(request: Request) -> Response[list[PolicyView]]:
    """List the policies that match a queue or an exchange, the best first."""
    vhost, is_queue = request.path_vhost(), request.path["kind"] == "queue"
    targets: dict[str, Queue] | dict[str, Exchange] = vhost.queues if is_queue else vhost.exchanges
    target = targets.get(request.path["name"])
    if target is None:
        raise missing()
    return ok([policy_view(policy) for policy in request.node.policies.matching(target)])


@route("PUT", ADMIN, "/warren/vhost-limits/{vhost}")
def put_vhost_limits(request: Request, body: LimitsBody) -> Response[None]:
    """Set all limits of a virtual host in one change."""
    request.node.limits.set_vhost(request.path_vhost().name, body.value)
    return done()


@route("PUT", ADMIN, "/warren/user-limits/{user}")
def put_user_limits(request: Request, body: LimitsBody) -> Response[None]:
    """Set several limits of a user in one change."""
    user = find_user(request)
    check_protected(request, user)
    request.node.limits.set_user(user.name, body.value)
    return done()


@route("POST", LOCAL, "/warren/authenticate", durable=False)
async def authenticate(request: Request, body: CredentialsBody) -> Response[dict[str, bool]]:
    """Check a user's password."""
    password = body.password.encode("utf-8", "surrogateescape")
    verifying = verify_password(request.host, body.username, password, loopback=True)
    user = await request.wait(verifying)
    return ok({"authenticated": user is not None})


@route("GET", LOCAL, "/warren/backup", changes=True)
async def get_backup(request: Request) -> ByteStream:
    """Stream a backup of all that is stored, as of one moment, for `warren restore`."""
    host, node = request.host, request.node
    if host.imports.under_way:
        raise not_now("an import of definitions is under way: a part of them is here")
    if node.parameters.has_global(UNFINISHED_IMPORT):
        raise not_now(f"{INTERRUPTED}: {ADVICE}")
    if node.journal.backing_up:
        raise HTTPError(409, "conflict", "another backup is under way")
    begun = asyncio.Event()
    backup = node.journal.backup(begun.set)
    if backup is None:
        raise HTTPError(
            409, "conflict", "this broker keeps everything in memory (--memory): there is nothing to back up"
        )
    stream = ByteStream(TAR, backup.pieces({"version": distribution_version(), "node": node.name}))

    def leave() -> None:
        stream.close()
        backup.end()
        host.commit_soon()
        host.report("backup_ended", "info", {"whole": stream.whole})

    stream.leave = leave
    host.report("backup_begun", "info", {})
    host.commit_soon()
    ready = False
    try:
        await request.wait(asyncio.wait_for(begun.wait(), MOMENT_S))
        ready = True
    except TimeoutError:
        raise not_now("the disk does not take what is to be written before the backup") from None
    finally:
        if not ready:
            stream.leave_once()
    return stream


def parsed_definitions(text: bytes) -> object:
    """Raises HTTPError (400), Invalid."""
    check_shape(text)
    try:
        document = parse_json(text)
    except ValueError as error:
        raise bad(f"failed to parse JSON: {error}") from None
    check_depth(document)
    return document


@route("POST", LOCAL, "/warren/definitions", body_limit=DOCUMENT_LIMIT)
async def import_definitions(request: Request, body: bytes) -> Response[dict[str, list[str]]]:
    """Import definitions, all of them or none, and return the parts that were skipped.

    With `leave-out` entries that this broker cannot have are skipped too. With `skip-if-unchanged` the document is not
    imported if it was the last one that was imported so, unless an import of it was interrupted since.
    """
    skip, leave_out = request.flag("skip-if-unchanged"), request.flag("leave-out")
    hashing = asyncio.to_thread(lambda: (hashlib.sha256(body).hexdigest(), digest_of(body)))
    digest, text_digest = await request.wait(hashing)
    parameters = request.node.parameters
    interrupted = was_interrupted(parameters.get_global(UNFINISHED_IMPORT), text_digest)
    if skip and not interrupted and parameters.get_global(IMPORTED_HASH) == digest:
        return ok({"skipped": []})
    document = Undecoded(lambda: (parsed_definitions(body), text_digest), len(body))
    importing = request.host.imports.run(document, None, request.user.name, leave_out, check_actor=request.authorize)
    imported = await request.complete(importing)
    if skip:
        with request.acting():
            request.node.parameters.set_global(IMPORTED_HASH, digest)
    return ok({"skipped": imported.warnings})
