"""The mutants of the core of Warren, and a random draw of some of them.

The operators are those of mutmut, and two more: a statement is left out, and a condition is inverted. Code that only
people or tools read is not mutated: annotations, imports, docstrings, texts of errors, assertions and abstract methods.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import unified_diff
from functools import cache
from hashlib import sha256
from pathlib import Path

import libcst as cst
from libcst import matchers as m
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators, operator_swap_op

FOLDERS = ("broker/core/queues", "broker/core/exchanges", "broker/storage", "broker/session", "federation")
# The parts of nodes that are not mutated, by type of node
NOT_MUTATED: dict[type[cst.CSTNode], m.BaseMatcherNode] = {
    cst.Annotation: m.Annotation(),
    cst.Import: m.Import(),
    cst.ImportFrom: m.ImportFrom(),
    cst.Decorator: m.Decorator(),
    cst.Assert: m.Assert(),
    cst.Raise: m.Raise(exc=m.Name("NotImplementedError")),
    cst.FunctionDef: m.FunctionDef(name=m.Name("__repr__")),
    cst.If: m.If(test=m.Name("TYPE_CHECKING")),
    cst.Expr: m.Expr(value=m.SimpleString() | m.ConcatenatedString()),
    cst.Assign: m.Assign(targets=[m.AssignTarget(m.Name("__slots__") | m.Name("__all__"))]),
    cst.Call: m.Call(func=m.Name("cast") | m.Name("isinstance")),
}
TEXTS = (cst.SimpleString, cst.ConcatenatedString, cst.FormattedString)
SWAPPED = cst.BinaryOperation | cst.UnaryOperation | cst.BooleanOperation | cst.ComparisonTarget | cst.AugAssign


def leave_out(node: cst.BaseSmallStatement) -> Iterator[cst.BaseSmallStatement]:
    """A statement with an effect becomes `pass`, and a value that is returned None."""
    if isinstance(node, cst.Return):
        if node.value is not None and not m.matches(node.value, m.Name("None") | m.Name("False")):
            yield cst.Return()
    else:
        yield cst.Pass()


def invert(node: cst.If | cst.While) -> Iterator[cst.If | cst.While]:
    """A condition becomes its opposite."""
    condition = node.test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    yield node.with_changes(test=cst.UnaryOperation(cst.Not(), condition))


OPERATORS = [
    # mutmut's own test of a node's type is slow
    *((SWAPPED if each is operator_swap_op else kind, each) for kind, each in mutation_operators),
    *((kind, leave_out) for kind in (cst.Expr, cst.Raise, cst.Del, cst.AugAssign, cst.Return)),
    *((kind, invert) for kind in (cst.If, cst.While)),
]


@dataclass(frozen=True)
class Mutant:
    """A change of one place of a file, `number` among the changes of that file.

    The key is the same in each run while the first line of the place is the same.
    """

    path: str
    line: int
    end: int
    in_function: bool
    number: int
    key: str

    def code(self) -> str:
        """Return the mutated source of the file."""
        module, places = _mutations(self.path)
        node, mutated, *_ = places[self.number]
        return module.deep_replace(node, mutated).code

    def diff(self) -> str:
        lines = Path(self.path).read_text(encoding="utf-8").splitlines()
        changed = [*unified_diff(lines, self.code().splitlines(), n=0, lineterm="")][3:]
        return "\n".join(changed)


# a node, what replaces it, its first and last line, and whether it is in the body of a function
Place = tuple[cst.CSTNode, cst.CSTNode, int, int, bool]


class _Places(cst.CSTVisitor):
    """A visitor that finds the places of a module where it may be mutated."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Place] = []
        self._raising = 0
        self._functions = 0

    def on_visit(self, node: cst.CSTNode) -> bool:
        self._raising += isinstance(node, cst.Raise)
        excluded = NOT_MUTATED.get(type(node))
        if excluded is not None and m.matches(node, excluded):
            return False
        if self._raising and isinstance(node, TEXTS):
            return False
        place = self.get_metadata(PositionProvider, node, None)
        if place is not None:
            for kind, operator in OPERATORS:
                if isinstance(node, kind):
                    head = node.test if isinstance(node, cst.If | cst.While) else node
                    end = self.get_metadata(PositionProvider, head).end.line
                    where = (place.start.line, end, self._functions > 0)
                    self.found += ((node, mutated, *where) for mutated in operator(node))
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        self._raising -= isinstance(original_node, cst.Raise)

    def visit_FunctionDef_body(self, node: cst.FunctionDef) -> None:
        self._functions += 1

    def leave_FunctionDef_body(self, node: cst.FunctionDef) -> None:
        self._functions -= 1


@cache
def _mutations(path: str) -> tuple[cst.Module, list[Place]]:
    wrapper = MetadataWrapper(cst.parse_module(Path(path).read_text(encoding="utf-8")), unsafe_skip_copy=True)
    places = _Places()
    wrapper.visit(places)
    return wrapper.module, places.found


def _hash(*parts: object) -> str:
    return sha256("\0".join(map(str, parts)).encode()).hexdigest()


def _mutants(path: str, seed: int) -> Iterable[Mutant]:
    """One mutant for each line of this file that has any."""
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    module, places = _mutations(path)
    drawn: dict[int, Mutant] = {}
    equal: Counter[tuple[object, ...]] = Counter()
    for number, (node, mutated, line, end, in_function) in enumerate(places):
        code = module.code_for_node(mutated)
        if code.replace("None", "False") == module.code_for_node(node):
            continue  # nobody asks which of the two it is
        change = (seed, path, lines[line - 1], type(mutated).__name__, code)
        equal[change] += 1  # those of equal lines have keys of their own
        mutant = Mutant(path, line, end, in_function, number, _hash(*change, *range(1, equal[change])))
        drawn[line] = min(drawn.get(line, mutant), mutant, key=lambda each: each.key)
    return drawn.values()


def draw(count: int, seed: int) -> list[Mutant]:
    """Draw this many mutants, at most one of a line. The draw depends on the texts of lines, not on their numbers."""
    paths = sorted(str(path) for folder in FOLDERS for path in Path(folder).rglob("*.py"))
    mutants = [mutant for path in paths for mutant in _mutants(path, seed)]
    chosen = sorted(mutants, key=lambda each: _hash(each.key))[:count]
    return sorted(chosen, key=lambda each: (each.path, each.line))
