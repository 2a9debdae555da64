"""Formats of lists, compared with the output of rabbitmqctl 3.10 for the same lists."""

import io

import pytest

from warren.broker.ctl.formats import FORMATS, cell, term

USERS: list[list[object]] = [["guest", ["administrator"]], ["u", []]]

WRITTEN = {
    "table": "user\ttags\nguest\t[administrator]\nu\t[]\n",
    "csv": '"user","tags"\n"guest","[administrator]"\n"u","[]"\n',
    "json": '[\n{"user":"guest","tags":["administrator"]}\n,{"user":"u","tags":[]}\n]\n',
    "erlang": '[[{user,<<"guest">>},{tags,[<<"administrator">>]}],[{user,<<"u">>},{tags,[]}]]\n',
    "pretty_table": (
        "┌───────┬─────────────────┐\n"
        "│ user  │ tags            │\n"
        "├───────┼─────────────────┤\n"
        "│ guest │ [administrator] │\n"
        "├───────┼─────────────────┤\n"
        "│ u     │ []              │\n"
        "└───────┴─────────────────┘\n"
    ),
}


def written(name: str, rows: list[list[object]], headings: bool = True) -> str:
    out = io.StringIO()
    FORMATS[name](["user", "tags"], iter(rows), headings, out)
    return out.getvalue()


@pytest.mark.parametrize("name", WRITTEN)
def test_a_list_is_written_as_by_rabbitmqctl(name: str) -> None:
    assert written(name, USERS) == WRITTEN[name]


def test_an_empty_table_has_no_headings_and_an_empty_array_is_one() -> None:
    assert written("table", []) == "" == written("pretty_table", [], False)
    assert written("json", []) == "[\n]\n"


def test_headings_can_be_left_out() -> None:
    assert written("table", USERS, headings=False) == "guest\t[administrator]\nu\t[]\n"


@pytest.mark.parametrize(("value", "shown"), [
    (None, ""),
    (True, "true"),
    (5, "5"),
    ({"connection_name": "x", "n": 1}, '[{"connection_name","x"},{"n",1}]'),
    (["a", "b"], "[a, b]"),
    ({"a": ["a", 2, ["b", {"z": 1}]], "e": []}, '[{"a",["a",2,["b",[{"z",1}]]]},{"e",[]}]'),
    ("a\tb\x1b[2J", "a\\tb\\x1b[2J"),
])  # fmt: skip
def test_a_cell_is_on_one_line_and_gives_a_terminal_no_orders(value: object, shown: str) -> None:
    assert cell(value) == shown


def test_a_term_is_quoted() -> None:
    assert term("") == "<<>>"
    assert term(r"^a\.b") == r'<<"^a\\.b">>'
    assert term({"a": 'b"', "n": None}) == '[{<<"a">>,<<"b\\"">>},{<<"n">>,undefined}]'


COLUMNS = ["name", "messages", "policy"]
QUEUES: list[list[object]] = [["orders", 12_345, None], ["x", 7, "p" * 8]]


@pytest.mark.parametrize(
    ("rows", "width", "headings", "shown"),
    [
        (
            QUEUES,
            26,
            True,
            "name    messages  policy\norders     12345\nx              7  pppppppp\n",
        ),
        (QUEUES, 24, False, "orders  12345\nx           7  pppppppp\n"),
        (
            QUEUES,
            25,  # one less than the widths need
            True,
            "name      orders\nmessages  12345\n\nname      x\nmessages  7\npolicy    pppppppp\n",
        ),
        ([["a", True, ""], ["b", 1, ""]], 80, False, "a  true\nb  1\n"),
        ([], 80, True, "(none)\n"),
    ],
)
def test_a_terminal_gets_aligned_columns_or_records_if_they_are_too_wide_for_it(
    monkeypatch: pytest.MonkeyPatch, rows: list[list[object]], width: int, headings: bool, shown: str
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    out = io.StringIO()
    FORMATS["terminal"](COLUMNS, iter(rows), headings, out)
    assert out.getvalue() == shown
