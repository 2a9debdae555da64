"""The rules of the house, read from the source with `ast`: who may import whom, how large things grow, what is said.

An exception is a line in one of the tables below with its reason. The tables may only shrink: an entry that is not
needed any more, or that allows more than is used, fails as well.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from tests.tiers import INPUTS_OF_REST

PARTS = ("broker", "federation", "plugins", "testing")
PACKAGES = (*PARTS[:3], "warren/testing")  # their folders

# path::name -> why this function may catch every Exception
TASK_ROOTS: dict[str, str] = {
    "broker/core/queues/queue_host.py::QueueHost.feed": "one queue; its failure must not end the publisher",
    "broker/core/jobs/scheduler.py::Scheduler._step": "the root of jobs; the failure of one ends that one",
    "broker/core/jobs/scheduler.py::Scheduler._pump_due": "deletes or delivers of queues that are due; as in `pump`",
    "broker/core/jobs/scheduler.py::Scheduler.pump": "delivers of all queues; the failure of one keeps back that one",
    "broker/runtime/supervisor.py::Supervisor.report_failure": "a log that fails must not keep a task from its restart",
    "broker/plugin_host/loading.py::load": "imports a stranger's module; whatever fails in it is told in one line",
    "broker/storage/postgresql/watch.py::Watch._run": "a thread; whatever fails there ends the node",
    "broker/runtime/commit_thread.py::Committer._completed": "calls of the workers; a failure there ends the node",
    "broker/net/fair_turns.py::TransportHost._flush": "writes for all connections; the failure of one ends that one",
    "broker/net/transport.py::Transport._serve": "called by the loop; a failure ends this connection alone",
    "federation/upstream/transport.py::UpstreamTransport._read": "called by the loop; ends that link alone",
    "federation/link.py::Link._retry_loop": "the root of a link; a bug ends this attempt alone",
    "plugins/management/framework/http_api.py::HTTPAPI._respond": "the root of a request; a failure answers 500",
    "plugins/prometheus/endpoint.py::MetricsEndpoint.serve": "the root of a scrape; a failure answers 500",
    "plugins/message_log/cli.py::analyze": "the root of a command; Python's status for a failure is a verdict there",
}

# path::name -> why this function starts a task, a thread or a child process that it does not await at once, and what
# notices its failure
STARTS: dict[str, str] = {
    "broker/runtime/commit_thread.py::Committer.__post_init__": "the journal's threads; their failure ends the node",
    "broker/storage/postgresql/watch.py::Watch.__post_init__": "the thread of the heartbeat; its failure ends the node",
    "broker/storage/postgresql/ownership.py::Beats.start": "short calls; a failure shows in the next transaction",
    "broker/storage/postgresql/database.py::PostgreSQL._replaced": "one call; a failure shows in the next read",
    "broker/app/standby.py::Standby._acquire": "a call in a thread, awaited",
    "broker/runtime/password_hashing.py::ThreadHashing.__post_init__": "a thread of short calls; the loop reads them",
    "broker/runtime/password_hashing.py::ThreadHashing._run": "a call in that thread; its end is told to who asked",
    "broker/runtime/supervisor.py::Child._start": "the supervisor itself",
    "broker/runtime/supervisor.py::Supervisor.run": "the supervisor itself",
    "broker/runtime/supervisor.py::Supervisor.stop": "waits that end with the call",
    "plugins/management/api/warren.py::config_changes": "a call in a thread, awaited",
    "plugins/management/api/warren.py::import_definitions": "calls in a thread, awaited",
    "federation/upstream/connection.py::UpstreamConnection._run": "awaited in the same call",
    "federation/upstream/handshake.py::AiormqConnection.create_task": "tasks of aiormq, which notes their failures",
    "federation/link.py::until_one_fails": "awaited in the same call",
    "plugins/management/api/previews.py::preview_policy": "a call in a thread, awaited",
    "plugins/management/api/reports.py::of_report": "a call in a thread, awaited",
    "plugins/management/api/users.py::compiled": "a call in a thread, awaited",
    "plugins/management/api/reports.py::list_reports": "a call in a thread, awaited",
    "plugins/management/framework/openapi.py::Constant.answer": "awaited by its callers; started again after a failure",
    "plugins/http/asgi.py::run_until": "awaited in the same call",
    "plugins/management/framework/byte_stream.py::ByteStream.pieces": "awaited in the same call",
    "plugins/message_log/analysis/engine.py::InProcess.map": "threads that end with the call",
    "plugins/message_log/export/writer_process.py::Outlet.start": "the writer, whose end its watcher notices",
    "warren/testing/proxy.py::Proxy.__init__": "the thread of the proxy; each call waits for it",
    "warren/testing/proxy.py::Proxy.call": "awaited in the same call",
    "warren/testing/proxy.py::Proxy.connected": "a task that reports a failure by closing its client",
    "warren/testing/broker.py::Broker.start": "the broker, in the process of the tests, which notice its end",
}
PROCESSES = {"create_subprocess_exec", "create_subprocess_shell", "Process", "Popen"}  # which outlive an awaited call
STARTING = PROCESSES | {
    *("create_task", "ensure_future", "run_coroutine_threadsafe", "run_in_executor", "to_thread", "start_new_thread"),
    *("Thread", "ThreadPoolExecutor", "ProcessPoolExecutor", "start_soon"),
}

# folder of the broker, or single file at its root -> what it may import: folders with all below them, single modules,
# third-party packages. Imports for types alone count as well. Those of the core's own folders are in CORE.
MAY_IMPORT: dict[str, set[str]] = {
    "amqp": set(),
    "compilation": set(),
    "control_socket": set(),
    "product": set(),
    "stable_hash": set(),
    "standard_streams": {"system_errors"},
    "system_errors": set(),
    "core": {"amqp", "compilation", "system_errors", "logs.redaction", "mypy_extensions", "regex"},
    "wire": {"amqp", "mypy_extensions", "pamqp"},
    "session": {"amqp", "core", "wire", "mypy_extensions", "pamqp"},
    "storage": {"standard_streams", "system_errors", "core.messages", "core.metadata", "psycopg"},
    "runtime": {"core", "logs.redaction", "argon2"},
    "net": {"system_errors", "amqp", "core", "wire", "session", "runtime"},
    "config": {"system_errors", "amqp.errors", "core.metadata.patterns"},
    "logs": {"config", "msgspec", "structlog"},
    "operator": {"control_socket", "system_errors", "amqp", "core", "net", "runtime", "config", "logs"},
    "plugin_host": {
        *("compilation", "system_errors", "amqp", "core", "session", "net", "runtime", "config", "operator"),
        "structlog",
    },
    "plugin": {"amqp", "stable_hash", "core", "session", "net", "runtime", "plugin_host"},
    "ctl": {"control_socket", "product", "standard_streams", "storage.archive", "system_errors", "click", "pamqp"},
    "system": {"click"},
    "app": {"*"},
    "cli": {"*"},
}

# The folders of the core: each may import those before it.
CORE = (
    *("metadata", "messages", "counters", "access", "jobs", "queues", "exchanges", "vhost", "policies", "telemetry"),
    *("node", "definitions"),
)
EFFECTS = {
    *("asyncio", "socket", "select", "selectors", "ssl", "time", "logging"),
    *("threading", "concurrent", "multiprocessing", "subprocess", "signal"),
}
# folder -> modules of the standard library that it may not import
NOT_IN_FOLDER: dict[str, set[str]] = {
    "amqp": EFFECTS | {"os", "random"},
    "core": EFFECTS | {"os", "random"},
    "wire": EFFECTS | {"os", "random"},
    "session": EFFECTS | {"os"},
}
BANNED = re.compile(r"^ *(?:import|from) (pickle|marshal|shelve|mock|unittest(?:\.| import )mock)\b", re.MULTILINE)
ASYNC_FOLDERS = {"app", "operator", "plugin_host", "net", "runtime"}

DEFINITION = re.compile(r"^ *(?:class|def|async def) (\w+)", re.MULTILINE)
BAD_WORDS = {"manager", "managers", "helper", "helpers", "util", "utils", "common"}


@cache
def sources(*folders: str) -> list[Path]:
    return sorted(
        path for folder in folders for path in (ROOT / folder).rglob("*.py") if "node_modules" not in path.parts
    )


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(text_of(path), str(path))


def short(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def parts_of(path: Path) -> tuple[str, ...]:
    """Return the parts of a path below the project, or below `warren/`."""
    parts = path.relative_to(ROOT).parts
    return parts[1:] if parts[0] == "warren" else parts


@cache
def is_module(name: str) -> bool:
    places = [folder.joinpath(*name.removeprefix("warren.").split(".")) for folder in (ROOT, ROOT / "warren")]
    return any(path.with_suffix(".py").exists() or (path / "__init__.py").exists() for path in places)


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    return list(ast.walk(tree_of(path)))


@cache
def imports(path: Path) -> list[tuple[int, str]]:
    """Line and absolute dotted name of each module that the file imports, wherever in it the import stands."""
    package = parts_of(path.parent)
    found: list[tuple[int, str]] = []
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parent = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*parent, *([node.module] if node.module else [])])
            for alias in node.names:
                whole = f"{module}.{alias.name}"
                found.append((node.lineno, whole if is_module(whole) else module))
    return [(line, name.removeprefix("warren.")) for line, name in found]


def folder_of(path: Path) -> str:
    """`core` of broker/core/queues/queue.py, `cli` of broker/cli.py, empty for the broker's own `__init__`."""
    return path.relative_to(ROOT / "broker").with_suffix("").parts[0].removeprefix("__init__")


def complaint(path: Path, line: int, text: str) -> str:
    return f"{short(path)}:{line}: {text}"


@cache
def functions(path: Path) -> list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function with its name inside the file, as `Queue.push`."""

    def walk(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield prefix + child.name, child
                yield from walk(child, f"{prefix}{child.name}.")
            elif isinstance(child, ast.ClassDef):
                yield from walk(child, f"{prefix}{child.name}.")
            else:
                yield from walk(child, prefix)

    return list(walk(tree_of(path), ""))


@pytest.fixture(scope="module", autouse=True)
def freed() -> Iterator[None]:
    """Frees the trees in the end: full collections in later tests of this process would visit millions of nodes."""
    yield
    for cached in (text_of, tree_of, nodes_of, imports, functions):
        cached.cache_clear()


def allowed(module: str, permitted: set[str]) -> bool:
    if module.startswith("broker."):
        inside = module.removeprefix("broker.")
        return any(inside == name or inside.startswith(name + ".") for name in permitted)
    top = module.partition(".")[0]
    return top in sys.stdlib_module_names or top in permitted


def test_each_folder_imports_only_what_its_line_of_the_table_allows() -> None:
    found = []
    for path in sources("broker"):
        folder = folder_of(path)
        permitted = MAY_IMPORT[folder] | {folder} if folder else {"compilation"}
        if "*" not in permitted:
            found += [
                complaint(path, line, f"{folder} may not import {module}")
                for line, module in imports(path)
                if not allowed(module, permitted)
            ]
    assert not found, "\n".join(found)


def test_folders_of_the_core_import_only_those_before_them() -> None:
    found = []
    for path in sources("broker/core"):
        folder = path.relative_to(ROOT / "broker" / "core").parts[0]
        for line, module in imports(path):
            if module.startswith("broker.core.") and folder in CORE:
                other = module.split(".")[2]
                if CORE.index(other) > CORE.index(folder):
                    found.append(complaint(path, line, f"{folder} may not import {module}"))
    assert not found, "\n".join(found)


# folder -> files that import each other in rings there, which are too many; the numbers may only fall
RINGS: dict[str, int] = {
    "plugins/management": 2,
}


def files_in_rings(paths: Iterable[Path]) -> set[str]:
    """Return the files that import themselves by way of others of these, if only for a type."""
    files = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in paths if path.stem != "__init__"}
    reached = {name: {module for _, module in imports(path)} & files.keys() for name, path in files.items()}
    for through in files:
        for name, others in reached.items():
            if through in others:
                reached[name] = others | reached[through]
    return {name for name, others in reached.items() if name in others}


def test_files_of_a_folder_import_each_other_in_no_ring() -> None:
    found = []
    for folder in sorted({path.parent for path in sources(*PACKAGES)}):
        ring, known = sorted(files_in_rings(folder.glob("*.py"))), RINGS.get(short(folder), 0)
        if len(ring) != known:
            found.append(f"{short(folder)}: {len(ring)} files in rings, not {known}: {', '.join(ring)}")
    assert not found, "\n".join(found)


def test_files_of_the_broker_import_each_other_in_no_ring() -> None:
    assert not files_in_rings(sources("broker"))


# folder of a part beside the broker -> its folders, each of which may import those before it. Files directly in the
# folder use all of them, and none of them imports these files.
FOLDERS: dict[str, tuple[str, ...]] = {
    "federation": ("upstream",),
    "plugins/management": ("stats", "framework", "views", "api"),
    "plugins/message_log": ("file_format", "export", "compaction", "trace", "analysis"),
}


def test_folders_of_plugins_import_only_those_before_them() -> None:
    found = []
    for path in sources("federation", "plugins"):
        for parent, folders in FOLDERS.items():
            if not path.is_relative_to(ROOT / parent) or path.parent == ROOT / parent:
                continue
            folder, prefix = path.relative_to(ROOT / parent).parts[0], parent.replace("/", ".") + "."
            permitted = folders[: folders.index(folder) + 1] if folder in folders else ()
            for line, module in imports(path):
                if module.startswith(prefix) and module.removeprefix(prefix).split(".")[0] not in permitted:
                    found.append(complaint(path, line, f"{folder} may not import {module}"))
    assert not found, "\n".join(found)


def test_folders_below_net_have_no_effects_of_their_own() -> None:
    found = []
    for path in sources("broker"):
        for line, module in imports(path):
            if {module, module.partition(".")[0]} & NOT_IN_FOLDER.get(folder_of(path), set()):
                found.append(complaint(path, line, f"{folder_of(path)} may not import {module}"))
    assert not found, "\n".join(found)


# part beside the broker -> what it may import of the broker. Exchange types show what third parties can do: they import
# the public names, the vocabulary of AMQP, and the two modules that are named.
PARTS_MAY_IMPORT: dict[str, set[str]] = {
    "federation": {"plugin", "product", "system_errors", "amqp", "core", "session", "config"},
    "plugins/exchanges": {"plugin", "amqp", "core.exchanges.delayed", "core.telemetry.firehose"},
    "plugins/http": {"plugin", "core", "session", "net", "runtime", "config"},
    "plugins/management": {
        *("plugin", "product", "system_errors", "amqp", "core", "session", "net", "config", "operator", "plugin_host"),
        "logs.redaction",
    },
    "plugins/migration": {
        *("plugin", "amqp", "core.metadata.patterns", "core.metadata.unfinished_import", "core.policies.policy_keys"),
        "core.policies.upstream_parameters",
        *("ctl.api_client", "ctl.errors", "standard_streams"),
    },
    "plugins/prometheus": {"plugin", "product", "core", "session", "runtime", "config"},
    "plugins/message_log": {"plugin", "system_errors", "amqp", "core", "net.connection_limits", "runtime", "config"},
    "testing": {"plugin", "app", "core", "session", "net", "runtime", "config", "logs"},
}


def part_of(path: Path) -> str:
    """`federation` of federation/link.py, `plugins/http` of plugins/http/server.py."""
    parts = parts_of(path.with_suffix(""))
    return parts[0] if parts[0] != "plugins" else "/".join(parts[:2])


def test_the_broker_imports_no_plugin_and_a_plugin_only_what_its_line_of_the_table_allows() -> None:
    found = []
    for path in sources(*PACKAGES):
        package, part = parts_of(path)[0], part_of(path)
        permitted = PARTS_MAY_IMPORT.get(part, set())
        for line, module in imports(path):
            top = module.partition(".")[0]
            if top in PARTS and top != package and (top != "broker" or not allowed(module, permitted)):
                found.append(complaint(path, line, f"{part} may not import {module}"))
    assert not found, "\n".join(found)


# plugin -> other plugins, or modules of them, that it may import; those that are not named import none
PLUGINS_MAY_IMPORT = {
    "management": {"http", "message_log.file_format.report_folder", "web"},
    "prometheus": {"http", "management"},
    "message_log": {"exchanges", "web"},
}


def test_plugins_import_each_other_in_one_direction() -> None:
    found = []
    for path in sources("plugins"):
        plugin = path.relative_to(ROOT / "plugins").with_suffix("").parts[0]
        for line, module in imports(path):
            package, _, rest = module.partition(".")
            permitted = {plugin, *PLUGINS_MAY_IMPORT.get(plugin, ())}
            if package == "plugins" and rest and not any(f"{rest}.".startswith(f"{name}.") for name in permitted):
                found.append(complaint(path, line, f"{plugin} may not import {module}"))
    assert not found, "\n".join(found)


def test_the_tables_of_imports_allow_nothing_that_is_not_imported() -> None:
    used: dict[str, set[str]] = {}
    for path in sources(*PACKAGES):
        folder = folder_of(path) if path.is_relative_to(ROOT / "broker") else part_of(path)
        used.setdefault(folder, set()).update(module.removeprefix("broker.") for _, module in imports(path))
    found = [
        f"{folder} imports no {name}"
        for folder, permitted in (MAY_IMPORT | PARTS_MAY_IMPORT).items()
        for name in permitted - {"*"}
        if not any(f"{module}.".startswith(f"{name}.") for module in used[folder])
    ]
    assert not found, "\n".join(found)


def test_banned_modules_are_not_imported() -> None:
    found = [
        complaint(path, text_of(path).count("\n", 0, match.start()) + 1, f"{match[1]} is banned")
        for path in sources(*PACKAGES, "tests", "tools")
        for match in BANNED.finditer(text_of(path))
    ]
    assert not found, "\n".join(found)


def test_no_async_function_stands_below_net() -> None:
    waiting = ast.AsyncFunctionDef | ast.AsyncFor | ast.AsyncWith | ast.Await
    found = [
        complaint(path, node.lineno, "async below net/")
        for path in sources("broker")
        if folder_of(path) not in ASYNC_FOLDERS
        for node in nodes_of(path)
        if isinstance(node, waiting)
    ]
    assert not found, "\n".join(found)


def words(name: str) -> set[str]:
    """`some_ClassName` as the words some, class, name."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def test_a_name_says_what_a_thing_is() -> None:
    found = []
    for path in sources(*PACKAGES, "tests"):
        for part in path.relative_to(ROOT).with_suffix("").parts:
            if words(part) & BAD_WORDS:
                found.append(complaint(path, 1, f"the name {part}"))
        for name in DEFINITION.findall(text_of(path)):
            if words(name) & BAD_WORDS:
                found.append(complaint(path, 1, f"the name {name}"))
    assert not found, "\n".join(found)


OPENING = re.compile(
    "(?:After|As|Asked|At|Before|Behind|Beside|Between|By|Called|For|From|Given|Here|How|If|In|It|Made|None|Nothing|Of|On"
    "|So|Taken|That|There|This|Those|To|Told|Until|What|Whatever|When|Where|Whether|Which|Who|Whoever|Whom|Whose|Why"
    "|With) "
)
DOCSTRING = re.compile(rf'^ *r?"""\s*{OPENING.pattern}', re.MULTILINE)
QUOTING = {
    "tests/unit/plugins/test_modulus_hash_guide.py",
    "tests/unit/plugins/test_presence_guide.py",
}  # their docstrings quote documents of other projects
NAMES_OCTETS = {  # where the type octet of AMQP is meant, or a client sees RabbitMQ's own text
    "broker/core/exchanges/exchange_type.py",
    "broker/core/metadata/validation.py",
    "broker/core/queues/arguments.py",
    "broker/wire/frame_reader.py",
    "broker/wire/method_decoder.py",
}


def docstrings(path: Path) -> Iterator[tuple[int, str, ast.AST]]:
    """Yield the line, the text and the definition of each docstring in a file."""
    for node in nodes_of(path):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, text, node


def returns_bool(node: ast.AST) -> bool:
    """Whether a definition is a function that is annotated to return a boolean."""
    returns = node.returns if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else None
    return isinstance(returns, ast.Name) and returns.id == "bool"


def test_a_docstring_opens_with_what_a_thing_is_or_does() -> None:
    found = []
    for path in sources(*PACKAGES, "tests"):
        if short(path) in QUOTING or not DOCSTRING.search(text_of(path)):
            continue  # parses no file that has nothing to complain of
        for line, text, node in docstrings(path):
            opening = OPENING.match(text)
            if opening and not (opening[0] == "Whether " and returns_bool(node)):
                found.append(complaint(path, line, f"the docstring opens with {opening[0]}"))
    assert not found, "\n".join(found)


def test_lengths_are_in_bytes() -> None:
    found = []
    for path in sources(*PACKAGES):
        lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if short(path) not in NAMES_OCTETS:
            found += [complaint(path, line, "bytes, not octets") for line, text in lines if "octet" in text.lower()]
    unneeded = [name for name in NAMES_OCTETS if "octet" not in (ROOT / name).read_text(encoding="utf-8").lower()]
    assert not found and not unneeded, "\n".join([*found, *[f"{name}: has no octets any more" for name in unneeded]])


def catches_everything(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(
        kind is None or (isinstance(kind, ast.Name) and kind.id in ("Exception", "BaseException")) for kind in kinds
    )


def test_only_task_roots_catch_every_exception() -> None:
    found, used = [], set()
    for path in sources(*PACKAGES):
        inside = {id(handler): name for name, node in functions(path) for handler in ast.walk(node)}
        for handler in nodes_of(path):
            if isinstance(handler, ast.ExceptHandler) and catches_everything(handler):
                place = f"{short(path)}::{inside.get(id(handler), '')}"
                used.add(place)
                if place not in TASK_ROOTS:
                    found.append(complaint(path, handler.lineno, "catches every exception and is no task root"))
    found += [f"{place}: the exception is not needed any more" for place in TASK_ROOTS.keys() - used]
    assert not found, "\n".join(found)


def test_only_the_supervisor_starts_what_outlives_a_call() -> None:
    found, used = [], set()
    for path in sources(*PACKAGES):
        inside = {id(call): name for name, node in functions(path) for call in ast.walk(node)}
        awaited = {id(node.value) for node in nodes_of(path) if isinstance(node, ast.Await)}
        for call in nodes_of(path):
            if not isinstance(call, ast.Call):
                continue
            called = getattr(call.func, "attr", getattr(call.func, "id", ""))
            if called in STARTING and (called in PROCESSES or id(call) not in awaited):
                place = f"{short(path)}::{inside.get(id(call), '')}"
                used.add(place)
                if place not in STARTS:
                    found.append(complaint(path, call.lineno, f"{called}: use Supervisor.run or Supervisor.keep"))
    found += [f"{place}: the exception is not needed any more" for place in STARTS.keys() - used]
    assert not found, "\n".join(found)


READS_CLOCK = {"monotonic", "perf_counter", "monotonic_ns", "perf_counter_ns", "time", "time_ns"}
READS = re.compile(rf"\b(?:sleep|{'|'.join(READS_CLOCK)})\(")  # in a file that is parsed
# path, or path::function -> why it may sleep for a fixed time, or reckon with the time that something took
CLOCK_READERS: dict[str, str] = {
    "tests/faults/crash/test_backups.py::"
    "test_a_backup_has_what_was_confirmed_and_not_what_was_acknowledged": "any moment will do for a backup",
    "tests/support/broker_process.py::BrokerProcess.start": "says how long a start took; nothing depends on it",
    "tests/faults/crash/test_features_restarted.py::"
    "test_a_kill_finds_a_dying_message_in_one_queue_or_the_other": "any moment",
    "tests/faults/crash/test_killed.py::restart": "any moment will do for a kill",
    "tests/faults/crash/test_killed.py::"
    "test_nothing_confirmed_is_lost_and_nothing_acknowledged_comes_back": "any moment",
    "tests/acceptance/federation/test_messages.py::"
    "test_what_a_full_queue_refuses_stays_upstream_and_is_not_tried_all_the_time": "a rate: slower allows more",
    "tests/acceptance/federation/test_status.py::"
    "test_the_command_line_tells_of_links_in_columns_that_may_be_blank": "a time of day, to the hour",
    "tests/loop_latency/meter.py::attempts": "leaves the processor to others; nothing depends on it",
    "tests/loop_latency/meter.py::UVLoopMeter._turn": "leaves the processor to others; nothing depends on it",
    "tests/acceptance/testing/test_broker.py::"
    "test_replies_are_delayed_in_order_until_the_fault_is_undone": "a lower bound: a slower machine allows more",
    "tests/acceptance/testing/test_broker.py::"
    "test_timestamps_are_those_of_the_machine_again_after_a_reset.died_s": "a time of day, to some hours",
    "tests/acceptance/testing/test_foreign.py::test_replies_are_late": "a lower bound: a slower machine allows more",
    "tests/acceptance/testing/test_partitions.py::"
    "test_a_partition_ends_with_a_reset_and_a_delay_goes_on_after_it": "a lower bound: a slower machine allows more",
    "tests/unit/testing/test_slow_network.py::use_in_a_partition": "a timer that must not send, however late it is",
    "tests/unit/testing/test_clock.py::"
    "test_timestamps_follow_the_clock_until_they_are_reset.use": "a time of day, to the hour",
    "tests/unit/runtime/test_clock.py::test_the_clock_counts_milliseconds_since_1970": "the clock is what is tested",
    "tests/unit/runtime/test_commit_thread.py::"
    "test_nothing_is_sealed_after_a_stop": "a timer behind the one that must not fire",
    "tests/unit/plugins/order_taker.py": "a consumer that takes its time, and prints in which order",
    "tests/support/peer.py::SocketPeer.wait": "another broker has no clock that a test could advance",
    "tests/analytics/test_export_writer.py::"
    "test_a_writer_that_dies_leaves_nothing_that_a_reader_takes_for_a_file": "sets the time of a file into the past",
}


def clock_faults(function: ast.AST) -> Iterator[ast.AST]:
    """Find sleeps outside `while`, or compares with or takes the difference of the machine's time there.

    In such a loop both are how a condition is waited for. Zero seconds are no sleep, but a turn of the loop.
    """
    for node in ast.iter_child_nodes(function):
        if isinstance(node, ast.While | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.Call) and called(node) == "sleep" and not zero(node.args):
            yield node
        if isinstance(node, ast.Compare) or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)):
            inner = [call for call in ast.walk(node) if isinstance(call, ast.Call)]
            if any(isinstance(call.func, ast.Attribute) and called(call) in READS_CLOCK for call in inner):
                yield node
                continue
        yield from clock_faults(node)


def called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def zero(arguments: list[ast.expr]) -> bool:
    return len(arguments) == 1 and isinstance(arguments[0], ast.Constant) and not arguments[0].value


def test_tests_wait_for_conditions_and_not_for_the_clock() -> None:
    found, used = [], set()
    for path in sources("tests"):
        for name, function in functions(path) if READS.search(text_of(path)) else ():
            for fault in clock_faults(function):
                places = {short(path), f"{short(path)}::{name}"}
                used |= places
                if not places & CLOCK_READERS.keys():
                    found.append(complaint(path, getattr(fault, "lineno", 0), f"{name} depends on the machine's speed"))
    found += [f"{place}: the exception is not needed any more" for place in CLOCK_READERS.keys() - used]
    assert not found, "\n".join(found)


def test_threads_of_tests_do_not_keep_their_process_from_ending() -> None:
    """A thread that is blocked when a test fails would, unless it is a daemon, block the run at its end."""
    found = []
    for path in sources("tests", "warren/testing", "tools"):
        for node in nodes_of(path) if "Thread" in text_of(path) else ():
            makes = isinstance(node, ast.Call) and called(node) == "Thread"
            extends = isinstance(node, ast.ClassDef) and "threading.Thread" in map(ast.unparse, node.bases)
            if (makes or extends) and "daemon=True" not in ast.unparse(node):
                found.append(complaint(path, getattr(node, "lineno", 0), "a thread without daemon=True"))
    assert not found, "\n".join(found)


def test_the_tests_whose_inputs_are_in_the_rest_exist() -> None:
    for name in INPUTS_OF_REST:
        path, _, function = name.partition("::")
        assert f"def {function}" in text_of(ROOT / "tests" / path), f"{name}: tests/tiers.py"


SKIPPED = {".git", ".venv", "node_modules", "build", "dist", "__pycache__", "data"}
TEXT = {"", ".py", ".md", ".toml", ".yaml", ".yml", ".json", ".js", ".mjs", ".cfg", ".txt"}
# Somebody's own machine; written so that this line does not match itself.
PRIVATE_PATH = re.compile(r"(?<![\w.])/(?:wor[k]|roo[t]|hom[e]|tmp/ven[v])/")
RESOLVED = re.compile(r'"resolved":\s"(?!https://registry\.npmjs\.org/)([^"]+)"')


@pytest.mark.parametrize("pattern", [PRIVATE_PATH, RESOLVED], ids=["paths", "registries"])
def test_no_file_tells_on_which_machine_it_was_written(pattern: re.Pattern[str]) -> None:
    found = []
    for path in ROOT.rglob("*"):
        parts = path.relative_to(ROOT).parts
        hidden = any(part in SKIPPED or part.endswith((".egg-info", "_cache", ".hypothesis")) for part in parts)
        if hidden or path.suffix not in TEXT or not path.is_file():
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if match := pattern.search(line):
                found.append(complaint(path, number, match.group()))
    assert not found, "\n".join(found)
