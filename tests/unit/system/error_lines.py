"""The sentences in the sources with which commands of `warren` and `warrenctl` end, if not with status 0."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.support.checkout import ROOT

SOURCES = (
    *("broker/cli.py", "broker/config", "broker/ctl", "broker/plugin_host/loading.py", "broker/system_errors.py"),
    *("broker/standard_streams.py", "broker/storage", "plugins/migration", "plugins/message_log/cli.py"),
    *("plugins/message_log/compaction", "plugins/message_log/trace", "plugins/message_log/analysis/job.py"),
)
# The place of the sentence among the arguments, by the name of what is called
ERRORS = {
    **dict.fromkeys(("CommandError", "ExitError", "ArgumentError", "OSError", "exit"), 1),
    **dict.fromkeys(("BadCommandLine", "Unreachable", "bad_argument", "complaint", "Unavailable", "failed"), 0),
    **dict.fromkeys(("ArgumentTypeError", "error", "print", "StorageFault", "NoBackup", "Unread", "Missing"), 0),
    **dict.fromkeys(("InUse", "PluginError", "JobRefused", "Busy", "NoExport", "ConfigError", "ValueError"), 0),
}
# Where those of Python are such sentences; elsewhere they are the reasons of others
ONLY_IN = {"OSError": ("broker/system_errors.py", "broker/storage/postgresql/"), "ValueError": ("broker/config/",)}
# Functions whose answers are such sentences or ends of them
ANSWERS = ("contradiction", "missing", "uri_fault", "unknown", "no_right", "reason_of")
TABLES = ("FILES", "NETWORK", "NO_ANSWER", "NO_HOST", "NO_MEMORY")  # constants that have them
LEAST = 7  # letters that say something


def sentences() -> Iterator[tuple[str, str]]:
    """Yield the file and the sentence of each, with `...` for what varies."""
    for name in SOURCES:
        for path in sorted((ROOT / name).rglob("*.py")) if (ROOT / name).is_dir() else [ROOT / name]:
            for text in dict.fromkeys(sentences_of(path)):
                if letters(text) >= LEAST:
                    yield path.relative_to(ROOT).as_posix(), text


def letters(text: str) -> int:
    """Return how many letters a sentence has after the name of its command."""
    return len(re.sub(r"[^a-zA-Z]", "", re.sub(r"^warren(ctl)?( \w+)?: ", "", text)))


def sentences_of(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    name = path.relative_to(ROOT).as_posix()
    ours = {error: at for error, at in ERRORS.items() if name.startswith(ONLY_IN.get(error, ""))}
    constants = values_in(tree.body)
    for table in TABLES:
        yield from texts_of(constants.get(table, []), constants)
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            known = constants | values_in(ast.walk(function))
            for node in ast.walk(function):
                if isinstance(node, ast.Return) and node.value is not None and function.name in ANSWERS:
                    yield from texts_of([node.value], known)
                elif isinstance(node, ast.Call):
                    yield from texts_of(argument_of(node, ours), known)


def argument_of(call: ast.Call, places: dict[str, int]) -> list[ast.expr]:
    """Return the argument of a call that is a sentence, if it has one; `places` are those of ERRORS."""
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    streams = [ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg == "file"]
    if name not in places or len(call.args) <= places[name] or name == "print" and streams != ["sys.stderr"]:
        return []
    return [call.args[places[name]]]


def values_in(nodes: Iterable[ast.AST]) -> dict[str, list[ast.expr]]:
    """Return the values of assignments by name."""
    values: dict[str, list[ast.expr]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                pairs = [(target, node.value)]
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = list(zip(target.elts, node.value.elts, strict=True))
                for name, value in pairs:
                    if isinstance(name, ast.Name):
                        values.setdefault(name.id, []).append(value)
    return values


def texts_of(nodes: Iterable[ast.expr], known: dict[str, list[ast.expr]]) -> Iterator[str]:
    """Yield the texts that expressions may have, on one line."""
    for node in nodes:
        for text in texts(node, known, 0):
            yield " ".join(text.split())


def texts(node: ast.expr, known: dict[str, list[ast.expr]], depth: int) -> list[str]:
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else ["..."]
    if isinstance(node, ast.IfExp):
        return texts(node.body, known, depth) + texts(node.orelse, known, depth)
    if isinstance(node, ast.Dict):
        return [text for value in node.values for text in texts(value, known, depth)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [a + b for a in texts(node.left, known, depth) for b in texts(node.right, known, depth)]
    if isinstance(node, ast.Name) and node.id in known and depth < 3:
        return [text for value in known[node.id] for text in texts(value, known, depth + 1)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return [re.sub(r"\{\w*\}", "...", text) for text in texts(node.func.value, known, depth)]
    if isinstance(node, ast.JoinedStr):
        return ["".join(each.value if isinstance(each, ast.Constant) else "..." for each in node.values)]
    return ["..."]
