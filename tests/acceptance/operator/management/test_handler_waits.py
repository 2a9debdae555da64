"""Handlers, and the functions they call, wait through their request, which checks the rights of its caller again.

What a handler has checked before a wait may be different after it: a user deleted, a virtual host gone.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from warren.plugins import management

FOLDER = Path(management.__file__).parent
WAITS = ("wait", "complete", "carry_out", "in_slices", "searching")  # methods of Request
# Functions that await something else, with the reason.
EXCEPTIONS = {
    "framework/request.py": {
        "wait": "the mechanism itself",
        "complete": "the mechanism itself",
        "carry_out": "the mechanism itself",
        "_carry_out": "the rest of a change, which is done to its end",
        "in_slices": "the mechanism itself",
        "searching": "the mechanism itself",
    },
    "framework/bodies.py": {
        "read": "before the handler: rights are checked after the body",
        "parse": "before the handler: rights are checked after the body",
    },
    "framework/router.py": {"read": "before the handler: rights are checked after the body"},
    "framework/pagination.py": {
        "list_response": "changes nothing, and is awaited through the request",
        "make_list": "changes nothing, and is awaited through the request",
    },
    "framework/line_stream.py": {"lines": "changes nothing; rights are checked before each piece is sent"},
    "framework/unread.py": dict.fromkeys(("room", "wait"), "has no request, and is awaited through one"),
    "framework/openapi.py": {
        "answer": "the same for everybody, without a password",
        "get_document": "the same for everybody, without a password",
        "get_page": "the same for everybody, without a password",
    },
    "api/bindings.py": {
        "emitted": "has no request, and is awaited through one",
        "unbound": "has no request, and is awaited through one",
    },
    "views/vhost.py": {"totals_of": "has no request, and is awaited through one"},
}


def functions(tree: ast.AST) -> Iterator[ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef))


def awaited(function: ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    """Yield the expressions that a function waits for, without functions inside it."""
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        pending += ast.iter_child_nodes(node)
        if isinstance(node, ast.Await):
            yield node.value
        elif isinstance(node, ast.AsyncFor) or isinstance(node, ast.comprehension) and node.is_async:
            yield node.iter
        elif isinstance(node, ast.AsyncWith):
            yield from (item.context_expr for item in node.items)


def waits_through_request(waited: ast.expr, own: set[str], iterators: set[str]) -> bool:
    """True for a method of the request, a function of the API with the request, or a limit of time for these."""
    if isinstance(waited, ast.Name):
        return waited.id in iterators
    if not isinstance(waited, ast.Call):
        return False
    called = ast.unparse(waited.func)
    if called in {f"request.{name}" for name in WAITS} | {"asyncio.timeout_at"}:
        return True
    return called in own and bool(waited.args) and ast.unparse(waited.args[0]) == "request"


def faults(text: str, own: set[str], exceptions: dict[str, str]) -> Iterator[str]:
    for function in functions(ast.parse(text)):
        iterators = {  # names of `request.in_slices(...)`
            node.targets[0].id
            for node in ast.walk(function)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
            if isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "request.in_slices"
        }
        for waited in awaited(function):
            if function.name not in exceptions and not waits_through_request(waited, own, iterators):
                yield f"{function.name} awaits {ast.unparse(waited)}"


CALLER = "framework/http_api.py"  # calls the handlers, and checks rights before and after


def test_handlers_wait_through_their_request() -> None:
    files = sorted([*FOLDER.glob("api/*.py"), *FOLDER.glob("framework/*.py"), *FOLDER.glob("views/*.py")])
    names_of = ((file.relative_to(FOLDER).as_posix(), file) for file in files)
    texts = {name: file.read_text() for name, file in names_of if name != CALLER}
    own = {
        function.name
        for name, text in texts.items()
        for function in functions(ast.parse(text))
        if function.args.args and function.args.args[0].arg == "request"
        if function.name not in EXCEPTIONS.get(name, {})
    }
    found = [
        f"{name}: {fault}" for name, text in texts.items() for fault in faults(text, own, EXCEPTIONS.get(name, {}))
    ]
    assert not found, "a handler waits for something else than its request:\n" + "\n".join(found)
    names = {(name, function.name) for name, text in texts.items() for function in functions(ast.parse(text))}
    assert {(name, one) for name, excepted in EXCEPTIONS.items() for one in excepted} <= names, (
        "an exception is obsolete"
    )


def test_no_handler_waits_while_changes_are_attributed_to_its_user() -> None:
    """A check in `acting` still holds when the change is made there."""
    for file in FOLDER.glob("api/*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.With) and "acting(" in ast.unparse(node.items[0].context_expr):
                waits = [one for one in ast.walk(node) if isinstance(one, ast.Await | ast.AsyncFor | ast.AsyncWith)]
                assert not waits, f"{file.name}:{node.lineno}"
