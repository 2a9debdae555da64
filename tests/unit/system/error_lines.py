"""The sentences in the sources with which commands of `warren` and `warrenctl` end, if not with status 0."""

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.support.checkout import ROOT

# Where the commands are, whose exceptions are all in ERRORS or OTHERS, and where else those of ERRORS are raised
COMMANDS = (
    "broker/cli.py",
    "broker/config",
    "broker/ctl",
    "broker/storage",
    "plugins/migration",
    "plugins/message_log",
)
SOURCES = ("broker", "federation", "plugins")
# The place of the sentence among the arguments, by the name of what is called
ERRORS = {
    **dict.fromkeys(("CommandError", "ExitError", "ArgumentError", "OSError", "ConnectionError", "exit"), 1),
    **dict.fromkeys(("BadCommandLine", "Unreachable", "bad_argument", "complaint", "Unavailable", "failed"), 0),
    **dict.fromkeys(("ArgumentTypeError", "error", "print", "StorageFault", "NoBackup", "Unread", "Missing"), 0),
    **dict.fromkeys(("InUse", "PluginError", "JobRefused", "Busy", "NoExport", "ConfigError", "ValueError"), 0),
    **dict.fromkeys(("wrong", "UnusableReport", "HTTPException", "Refused", "DefinitionsError"), 0),
    "Contradiction": 1,
}
# Where those of Python are such sentences, and words that mean something else in other places
ONLY_IN: dict[str, tuple[str, ...]] = {
    "OSError": ("broker/system_errors.py", "broker/storage/"),
    **dict.fromkeys(("ConnectionError", "HTTPException"), ("broker/ctl/",)),
    **dict.fromkeys(("ValueError", "wrong"), ("broker/config/",)),
    "Unavailable": ("broker/ctl/", "broker/storage/"),
    **dict.fromkeys(("error", "failed"), COMMANDS),
}
# Exceptions of the same folders whose texts no command prints
OTHERS = {"ConfirmedLost", "Fenced", "IncompleteRead", "NotImplementedError", "TypeError", "Vanished", "WriterEnded"}
# Functions whose answers are such sentences or ends of them
ANSWERS = ("contradiction", "missing", "uri_fault", "unknown", "no_right", "reason_of", "newer")
# Constants that have them
TABLES = ("FILES", "NETWORK", "NO_ANSWER", "NO_HOST", "NO_MEMORY", "REMEDIES")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Values = dict[str, list[ast.expr]]
LEAST = 7  # letters that say something


@functools.cache
def sentences() -> tuple[tuple[str, str], ...]:
    """Return the file and the sentence of each, with `...` for what varies."""
    paths = [path for name in SOURCES for path in sorted((ROOT / name).rglob("*.py"))]
    found = [(path.relative_to(ROOT).as_posix(), text) for path in paths for text in dict.fromkeys(sentences_of(path))]
    return tuple((name, text) for name, text in found if letters(text) >= LEAST)


def letters(text: str) -> int:
    """Return how many letters a sentence has after the name of its command."""
    return len(re.sub(r"[^a-zA-Z]", "", re.sub(r"^warren(ctl)?( \w+)?: ", "", text)))


def sentences_of(path: Path) -> Iterator[str]:
    text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
    ours = {
        error: at for error, at in ERRORS.items() if f"{error}(" in text and name.startswith(ONLY_IN.get(error, ""))
    }
    answers = ANSWERS if name.startswith(COMMANDS) else ()
    if not ours and not name.startswith(COMMANDS):
        return
    for scope, nodes, known in scopes(ast.parse(text), {}):
        if isinstance(scope, ast.Module):
            for table in TABLES:
                yield from texts_of(known.get(table, []), known)
        for node in nodes:
            if isinstance(node, ast.Call):
                yield from texts_of(argument_of(node, ours), known)
            elif isinstance(node, ast.Return) and node.value is not None and getattr(scope, "name", "") in answers:
                yield from texts_of([node.value], known)


def scopes(scope: ast.AST, known: Values) -> Iterator[tuple[ast.AST, list[ast.AST], Values]]:
    """Yield a module or function, then those in it: each with its nodes, and the values of the names that it knows."""
    nodes, left = list[ast.AST](), [*ast.iter_child_nodes(scope)]
    while left:
        nodes.append(node := left.pop())
        if not isinstance(node, FUNCTIONS):
            left += ast.iter_child_nodes(node)
    known = known | values_in(nodes)
    yield scope, nodes, known
    for node in nodes:
        if isinstance(node, FUNCTIONS):
            yield from scopes(node, known)


def exceptions() -> set[str]:
    """Return the names of the exceptions that the folders of the commands raise."""
    names = set()
    for name in COMMANDS:
        for path in (ROOT / name).rglob("*.py") if (ROOT / name).is_dir() else [ROOT / name]:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                    name = ast.unparse(node.exc.func).rpartition(".")[2]
                    names |= {name} if name[:1].isupper() else set()
    return names


def argument_of(call: ast.Call, places: dict[str, int]) -> list[ast.expr]:
    """Return the argument of a call that is a sentence, if it has one; `places` are those of ERRORS."""
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    streams = [ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg == "file"]
    if name not in places or len(call.args) <= places[name] or name == "print" and streams != ["sys.stderr"]:
        return []
    return [call.args[places[name]]]


def values_in(nodes: Iterable[ast.AST]) -> Values:
    """Return the values of assignments by name."""
    values: Values = {}
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


def texts_of(nodes: Iterable[ast.expr], known: Values) -> Iterator[str]:
    """Yield the texts that expressions may have, on one line."""
    for node in nodes:
        for text in texts(node, known, 0):
            yield " ".join(text.split())


def texts(node: ast.expr, known: Values, depth: int) -> list[str]:
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else ["..."]
    if isinstance(node, ast.IfExp):
        return texts(node.body, known, depth) + texts(node.orelse, known, depth)
    if isinstance(node, ast.BoolOp):
        return [text for value in node.values for text in texts(value, known, depth)]
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
