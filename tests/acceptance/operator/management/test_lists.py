"""Columns, sorting, pages and filters of lists."""

import asyncio
import json
from typing import Any

import pytest

from tests.support.http import Api
from warren.broker.amqp.field_table import Table
from warren.plugins.http import time_slices
from warren.plugins.http.responses import HTTPError
from warren.plugins.management.framework.pagination import Item, Listing, list_response

ITEMS: list[Item] = [
    {"name": "Beta", "messages": 7, "message_stats": {"publish": 3, "publish_details": {"rate": 1.5}}},
    {"name": "alpha", "messages": 0},
    {"name": "gamma ray", "messages": 12, "message_stats": {"publish": 9, "publish_details": {"rate": 0.0}}},
    {"name": "delta"},
]


def listed(items: list[Item] = ITEMS, paged: bool = True, **query: str) -> Any:
    listing = Listing(items, lambda item: item, (lambda item: str(item["name"])) if paged else None)
    return json.loads(asyncio.run(list_response(listing, query, asyncio.Lock())).encode())


def names(items: list[Item]) -> list[object]:
    return [item["name"] for item in items]


def refused(**query: str) -> tuple[int, str, str]:
    with pytest.raises(HTTPError) as caught:
        listed(**query)
    answer = caught.value.answer
    assert isinstance(answer.body, dict)
    return answer.status, answer.body["error"], answer.body["reason"]


def test_without_a_page_all_is_listed_in_its_order_and_filters_do_not_count() -> None:
    assert listed() == listed(name="alpha", use_regex="true", pagination="false", sort="") == ITEMS


def test_columns_choose_the_fields_of_items() -> None:
    assert listed(columns="name,message_stats.publish_details.rate,nope,messages.x") == [
        {"name": "Beta", "message_stats": {"publish_details": {"rate": 1.5}}, "messages": 7},
        {"name": "alpha", "messages": 0},
        {"name": "gamma ray", "message_stats": {"publish_details": {"rate": 0.0}}, "messages": 12},
        {"name": "delta"},
    ]
    assert listed(columns="nope") == [{}, {}, {}, {}]
    for wider in ("message_stats,message_stats.publish", "message_stats.publish,message_stats"):
        assert listed(columns=wider)[0] == {"message_stats": ITEMS[0]["message_stats"]}


def test_lists_are_sorted_by_any_field_with_missing_values_first() -> None:
    assert names(listed(sort="messages")) == ["alpha", "delta", "Beta", "gamma ray"]
    assert names(listed(sort="messages", sort_reverse="true")) == ["gamma ray", "Beta", "alpha", "delta"]
    assert names(listed(sort="message_stats.publish_details.rate", sort_reverse="true"))[0] == "Beta"
    assert names(listed(sort="name")) == ["Beta", "alpha", "delta", "gamma ray"]
    assert names(listed(sort_reverse="true")) == names(ITEMS)[::-1]


def test_words_and_numbers_can_be_sorted_together() -> None:
    values = {"a": "word", "b": 5, "c": [1], "d": None, "e": True}
    mixed: list[Item] = [{"name": name, "x": value} for name, value in values.items()]
    assert names(listed(mixed, sort="x")) == ["d", "e", "b", "a", "c"]


def test_a_page_comes_in_an_envelope() -> None:
    assert listed(page="1", page_size="3", columns="name") == {
        "total_count": 4, "filtered_count": 4, "item_count": 3, "page": 1, "page_size": 3, "page_count": 2,
        "items": [{"name": "Beta"}, {"name": "alpha"}, {"name": "gamma ray"}],
    }  # fmt: skip
    assert names(listed(page="2", page_size="3", sort="messages")["items"]) == ["gamma ray"]


def test_pages_are_filtered_by_a_part_of_the_name_in_any_case() -> None:
    page = listed(page="1", name="BET")
    assert (page["total_count"], page["filtered_count"], names(page["items"])) == (4, 1, ["Beta"])
    assert names(listed(page="1", name="^(alpha|B)", use_regex="true")["items"]) == ["Beta", "alpha"]
    empty = listed(page="1", name="^(alpha|B)")
    assert (empty["filtered_count"], empty["page_count"], empty["items"]) == (0, 0, [])


def test_pages_that_cannot_be_are_refused() -> None:
    invalid = "invalid_pagination_parameters"
    said = "Invalid pagination parameters: page number 1, page size 501"
    assert refused(page="1", page_size="501") == (400, invalid, said)
    assert refused(page="0") == (400, invalid, "Invalid pagination parameters: page number 0, page size undefined")
    assert refused(page="-1", page_size="0")[1] == invalid
    for query in ({"page": "x"}, {"page": "1", "page_size": ""}):
        assert refused(**query) == (400, "bad_request", "Pagination parameters are invalid")
    assert refused(page="7") == (400, "page_out_of_range", "Page out of range, page: 7 page size: 100, len: 4")
    assert refused(page="9" * 5000)[0] == 400


@pytest.mark.parametrize("pattern", ["(", "^(a|aa)+$", "a" * 1025, "(?<!a*)" + "(" * 1000, "((a{1000}){1000}){1000}"])
def test_an_invalid_or_slow_pattern_is_refused(pattern: str) -> None:
    items: list[Item] = [{"name": "a" * 40 + "b"}] * 50
    with pytest.raises(HTTPError) as caught:
        listed(items, page="1", name=pattern, use_regex="true")
    assert caught.value.answer.body == {"error": "bad_request", "reason": "Pagination parameters are invalid"}


def test_lists_without_pages_ignore_them() -> None:
    assert listed(paged=False, page="1") == ITEMS


def test_only_the_items_of_a_page_are_made() -> None:
    described = []

    def describe(number: int) -> Item:
        described.append(number)
        return {"name": str(number)}

    listing = Listing(range(1000), describe, str)
    asyncio.run(list_response(listing, {"page": "2", "page_size": "10", "sort": "name"}, asyncio.Lock()))
    assert len(described) == 10


def test_views_of_the_api_are_sorted_by_their_fields(api: Api) -> None:
    for order, reverse in (("", False), ("&sort_reverse=true", True)):
        listed = [one["name"] for one in api.get(f"/exchanges/%2F?sort=name{order}").json]
        assert listed == sorted(listed, reverse=reverse) and len(listed) > 5


def test_names_that_are_not_utf8_are_listed_by_views_of_the_api(api: Api) -> None:
    vhost = api.peer.node.vhosts["/"]
    vhost.bind("amq.direct", vhost.declare_queue("q"), "a\udcff", Table.EMPTY)
    keys = [one["routing_key"] for one in api.get("/bindings/%2F").json]
    assert "a\udcff" in keys


def test_bytes_that_are_not_utf8_are_listed_as_escaped_surrogates() -> None:
    assert names(listed([{"name": "a\udcff"}])) == ["a\udcff"]


def test_many_names_give_a_pattern_more_time() -> None:
    items: list[Item] = [{"name": f"queue.of.shop.{number}"} for number in range(5000)]
    assert listed(items, page="1", name="SHOP\\.499.$", use_regex="true")["filtered_count"] == 10


@pytest.mark.parametrize("reverse", [False, True])
async def test_long_lists_are_sorted_in_slices_as_sorted_does(reverse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_slices, "RUN", 10)
    objects = [(7 * number % 31, number) for number in range(200)]
    turns = 0
    sorting = asyncio.ensure_future(time_slices.sorted_in_slices(objects, lambda one: one[0], reverse))
    while not sorting.done():
        turns += 1
        await asyncio.sleep(0)
    in_order = sorted(objects, key=lambda one: one[0], reverse=reverse)
    assert sorting.result() == in_order and turns > 20
    for count in (0, 3, 25, 300):
        first = await time_slices.sorted_in_slices(objects, lambda one: one[0], reverse, count)
        assert first == in_order[:count]
