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
        **dict.fromkeys(WAITS, "the mechanism itself"),
        "_carry_out": "the rest of a change, which is done to its end",
    },
    "framework/bodies.py": dict.fromkeys(("read", "parse"), "before the handler: rights are checked after the body"),
    "framework/router.py": {"read": "before the handler: rights are checked after the body"},
    "framework/pagination.py": dict.fromkeys(
        ("list_response", "make_list"), "changes nothing, and is awaited through one"
    ),
    "framework/line_stream.py": dict.fromkeys(
        ("lines", "pieces"), "changes nothing; rights are checked before each piece is sent"
    ),
    "framework/byte_stream.py": {"pieces": "changes nothing; rights are checked before each piece is sent"},
    "framework/unread.py": dict.fromkeys(("room", "wait"), "has no request, and is awaited through one"),
    "framework/openapi.py": dict.fromkeys(
        ("answer", "get_document", "get_page"), "the same for all, without a password"
    ),
    "api/bindings.py": dict.fromkeys(("emitted", "unbound"), "has no request, and is awaited through one"),
    "api/vhosts.py": {"totals_of": "has no request, and is awaited through one"},
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
        assigned = [node for node in ast.walk(function) if isinstance(node, ast.Assign)]
        named = [node for node in assigned if ast.unparse(node.value).startswith("request.in_slices(")]
        iterators = {ast.unparse(node.targets[0]) for node in named}
        for waited in awaited(function):
            if function.name not in exceptions and not waits_through_request(waited, own, iterators):
                yield f"{function.name} awaits {ast.unparse(waited)}"


CALLER = "framework/http_api.py"  # calls the handlers, and checks rights before and after


def test_handlers_wait_through_their_request() -> None:
    files = sorted([*FOLDER.glob("api/*.py"), *FOLDER.glob("framework/*.py"), *FOLDER.glob("views/*.py")])
    names_of = ((file.relative_to(FOLDER).as_posix(), file) for file in files)
    texts = {name: file.read_text() for name, file in names_of if name != CALLER}
    defined = [(name, function) for name, text in texts.items() for function in functions(ast.parse(text))]
    served = [(name, one.name) for name, one in defined if one.args.args and one.args.args[0].arg == "request"]
    own = {function for name, function in served if function not in EXCEPTIONS.get(name, {})}
    found = [(name, list(faults(text, own, EXCEPTIONS.get(name, {})))) for name, text in texts.items()]
    assert not any(wrong for _, wrong in found), f"a handler waits for something else than its request: {found}"
    names = {(name, function.name) for name, function in defined}
    obsolete = {(name, one) for name, excepted in EXCEPTIONS.items() for one in excepted} - names
    assert not obsolete


def test_no_handler_waits_while_changes_are_attributed_to_its_user() -> None:
    """A check in `acting` still holds when the change is made there."""
    for file in FOLDER.glob("api/*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.With) and "acting(" in ast.unparse(node.items[0].context_expr):
                waits = [one for one in ast.walk(node) if isinstance(one, ast.Await | ast.AsyncFor | ast.AsyncWith)]
                assert not waits, f"{file.name}:{node.lineno}"
