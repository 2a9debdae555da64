"""Definitions over HTTP."""

import asyncio
import json
import threading
import time
from dataclasses import fields
from typing import Any

import pytest

from tests.support.hashing import FakeHashing
from tests.support.http import Api, asgi_scope, call_application
from tests.support.polling import until_async
from tests.support.speed import within
from warren.broker.amqp.errors import Invalid
from warren.broker.core.access.passwords import SHA256, hash_password
from warren.broker.core.definitions.entry import ENTRY_BYTES, VALUES_LIMIT
from warren.broker.core.definitions.importer import begin_import
from warren.broker.core.metadata.records import StoredUser
from warren.broker.core.metadata.unfinished_import import ADVICE, UNFINISHED_IMPORT, digest_of
from warren.plugins.http.responses import HTTPError
from warren.plugins.management.api import definitions, warren
from warren.plugins.management.framework import bodies

MD5 = "rabbit_password_hashing_md5"
QUEUE = {"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
DOCUMENT = {"rabbitmq_version": "4.0.5", "vhosts": [{"name": "v"}], "queues": [QUEUE], "unknown": []}
TOO_MANY_FREE = f"JSON may have {definitions.FREE_VALUES} commas and arrays without an end of an object"


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def names(document: Any, section: str) -> list[str]:
    return [item["name"] for item in document[section]]


def imported(document: Any, path: str = "/definitions") -> Any:
    """The export of another broker that has imported the document."""
    other = Api()
    assert other.post(path, document).status == 204
    exported = other.get(path).json
    other.close()
    return exported


@pytest.mark.parametrize("path", ["/definitions", "/all-configuration"])
def test_an_export_can_be_imported_by_another_broker(api: Api, path: str) -> None:
    assert api.post(path, DOCUMENT).status == 204
    document = api.get(path).json
    assert names(document, "vhosts") == ["/", "v"] and names(document, "queues") == ["q"]
    assert imported(document, path) == document


HASH = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
# RabbitMQ 3.10's export, with sections of later versions added.
OF_RABBITMQ: dict[str, Any] = {
    "rabbit_version": "3.10.8", "rabbitmq_version": "3.10.8", "product_name": "RabbitMQ", "product_version": "3.10.8",
    "rabbitmq_definition_format": "cluster", "original_cluster_name": "rabbit@there",
    "explanation": "Definitions of cluster 'rabbit@there'",
    "users": [
        {"name": "test12", "password_hash": HASH, "hashing_algorithm": "rabbit_password_hashing_sha256",
         "tags": ["administrator"], "limits": {"max-channels": 7}},
        {"name": "old", "password_hash": HASH, "tags": "a,b"},
    ],
    "vhosts": [
        {"name": "/"},
        {"name": "v", "description": "d", "metadata": {"description": "d", "tags": ["t"]}, "tags": ["t"], "limits": []},
    ],
    "permissions": [{"user": "test12", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}],
    "topic_permissions": [{"user": "test12", "vhost": "/", "exchange": "amq.topic", "write": "^a", "read": ".*"}],
    "parameters": [
        {"vhost": "/", "component": "federation-upstream", "name": "up", "value": {"uri": "amqp://there"}},
        {"vhost": "v", "component": "vhost-limits", "name": "limits", "value": {"max-queues": 9}},
    ],
    "global_parameters": [{"name": "cluster_name", "value": "burrow"}],
    "policies": [
        {"vhost": "/", "name": "p", "pattern": "^q", "apply-to": "queues", "definition": {"expires": 60000},
         "priority": 1},
    ],
    "queues": [
        {"name": "q", "vhost": "/", "type": "classic", "durable": True, "auto_delete": False,
         "arguments": {"x-queue-type": "classic", "x-max-length": 5}},
    ],
    "exchanges": [
        {"name": "x", "vhost": "/", "type": "headers", "durable": True, "auto_delete": False, "internal": False,
         "arguments": {"alternate-exchange": "amq.fanout"}},
    ],
    "bindings": [
        {"source": "x", "vhost": "/", "destination": "q", "destination_type": "queue", "routing_key": "",
         "arguments": {"x-match": "any", "n": 1}},
    ],
}  # fmt: skip


def test_an_export_of_rabbitmq_is_imported(api: Api) -> None:
    assert api.post("/definitions", OF_RABBITMQ).status == 204
    document = api.get("/definitions").json
    for section in ("permissions", "topic_permissions", "parameters", "policies", "bindings"):
        assert all(item in document[section] for item in OF_RABBITMQ[section]), section
    assert api.get("/queues/%2F/q").json["arguments"]["x-max-length"] == 5
    assert api.get("/exchanges/%2F/x").json["arguments"] == {"alternate-exchange": "amq.fanout"}
    assert api.get("/overview").json["cluster_name"] == "burrow"
    assert api.get("/users/test12").json["limits"] == {"max-channels": 7}
    assert api.get("/users/old").json["tags"] == ["a", "b"]
    assert api.get("/vhosts/v").json["tags"] == ["t"]


def test_one_virtual_host_is_exported_and_imported_into_another(api: Api) -> None:
    api.post("/definitions", DOCUMENT)
    document = api.get("/definitions/%2F").json
    assert document["original_vhost_name"] == "/" and "vhost" not in document["queues"][0]
    assert api.post("/definitions/v", document).status == 204
    assert names(api.get("/definitions/v").json, "queues") == ["q"]
    assert api.get("/definitions/nowhere").error == (400, "bad_request", "vhost_not_found")
    assert api.post("/definitions/nowhere", {}).error == (404, "not_found", "vhost_not_found")


def test_the_file_name_of_an_export_cannot_break_the_header(api: Api) -> None:
    def disposition(name: str) -> str:
        return api.get(f"/definitions?download={name}").headers["content-disposition"]

    assert disposition("my-file.json") == "attachment; filename=my-file.json"
    assert disposition("a%0d%0ab;%22/") == "attachment; filename=a__b___"


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[" * 100, b'{"queues": NaN}'])
def test_definitions_that_are_not_json_are_refused(api: Api, body: bytes) -> None:
    assert api.post("/definitions", body).error == (400, "bad_request", "failed_to_parse_json")


@pytest.mark.parametrize(
    ("value", "reason"),
    [(b"[" * 1_200 + b"]" * 1_200, "nested more than 100 deep"), (b"9" * 5_000, "a number may have 4300 digits")],
)
def test_the_limit_that_a_document_exceeds_is_named(api: Api, value: bytes, reason: str) -> None:
    body = b'{"unknown": [' + value + b"]}"
    status, _, said = api.post("/definitions", body).error
    decoded = "JSON may be nested 100 deep"  # where Python's decoder goes as deep
    assert status == 400 and said in (f"failed to parse JSON: {reason}", decoded)


def test_a_wrong_query_is_refused_before_the_document_is_decoded(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definitions, "decode_document", None)
    for path in ("/definitions", "/warren/check-definitions"):
        assert api.post(f"{path}?leave-out=maybe", DOCUMENT).status == 400


@pytest.mark.parametrize("document", [[[{}, {}]], nested(bodies.NESTED_LIMIT + 1)])
def test_an_invalid_document_is_freed_in_steps(api: Api, document: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definitions, "parse_json", lambda text: document)
    assert api.post("/definitions", b" " * (2 * bodies.THREAD_FROM)).status == 400
    assert not document


def test_a_document_of_the_socket_may_be_nested_as_deep_as_any_other() -> None:
    for depth in (bodies.NESTED_LIMIT + 1, 980):
        with pytest.raises(HTTPError, match="nested"):
            warren.parsed_definitions(b"[" * depth + b"]" * depth)
    document = nested(bodies.NESTED_LIMIT - 1)
    assert warren.parsed_definitions(json.dumps(document).encode()) == document


def test_the_deepest_value_of_a_parameter_that_can_be_set_can_be_imported_again(api: Api) -> None:
    values = {levels: {"value": nested(levels - 1)} for levels in range(90, bodies.NESTED_LIMIT)}
    statuses = [api.put(f"/global-parameters/p{levels}", value).status for levels, value in values.items()]
    assert statuses == [201] * 8 + [400] * 2, "a map, a list and an entry of the document are around it"
    assert "may be nested 98 deep" in api.put("/global-parameters/p", {"value": nested(97)}).error[2]
    document = api.get("/definitions").json
    assert nested(96) in [one["value"] for one in document["global_parameters"]]
    assert api.post("/definitions", document).status == 204


@pytest.mark.parametrize("character", ["x", "é", "\U0001f600"])
def test_an_error_shows_a_bounded_part_of_a_value(api: Api, character: str) -> None:
    text = character * 100_000
    policy = {"vhost": "/", "name": "p", "pattern": "", "definition": {"max-length": 1}}
    operator = {"vhost": "/", "component": "operator_policy", "name": "p"}
    binding = {"vhost": "/", "destination": "amq.fanout", "destination_type": "exchange", "routing_key": ""}
    exchange = {"vhost": "/", "name": "x", "durable": True}
    for document in (
        {"policies": [policy | {"apply-to": text}]},
        {"policies": [policy | {"definition": {"max-length": text}}]},
        {"parameters": [operator | {"value": {"pattern": "", "definition": {"max-length": 1}, "apply-to": text}}]},
        *({"queues": [QUEUE | {"arguments": {key: text}}]} for key in ("x-queue-type", "x-queue-mode")),
        {"bindings": [binding | {"source": "amq.headers", "arguments": {"x-match": text}}]},
        {"exchanges": [exchange | {"type": "x-recent-history", "arguments": {"x-recent-history-length": text}}]},
        {"exchanges": [exchange | {"type": "x-consistent-hash", "arguments": {"hash-property": text}}]},
    ):
        answer = api.post("/definitions", document)
        assert answer.error[0] == 400 and len(answer.error[2]) < 11_000


def test_names_of_queues_and_exchanges_with_line_ends_are_refused(api: Api) -> None:
    """Methods and routes strip them: the imported object could not be addressed, or another one would be."""
    place = {"vhost": "/", "durable": True}
    exchange, queue = place | {"type": "fanout"}, place | {"name": "ab"}
    binding = place | {"source": "amq.fanout", "destination": "ab", "destination_type": "queue", "routing_key": "k\n"}
    for document in (
        {"queues": [place | {"name": "a\nb"}]},
        {"exchanges": [exchange | {"name": "x\r"}]},
        {"queues": [queue], "bindings": [binding | {"source": "amq.fanout\n"}]},
        {"queues": [queue], "bindings": [binding | {"destination": "a\nb"}]},
    ):
        assert "has line ends" in api.post("/definitions", document).error[2]
    assert api.post("/definitions", {"queues": [queue], "bindings": [binding]}).status == 204


async def test_a_document_whose_client_has_left_is_freed_in_steps(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, left = threading.Event(), threading.Event()
    document: dict[str, Any] = {"queues": [{}]}

    def parse(text: bytes) -> object:
        begun.set()
        assert left.wait(60)
        return document

    monkeypatch.setattr(definitions, "parse_json", parse)
    scope, body = asgi_scope("POST", "/definitions", b" " * (2 * bodies.THREAD_FROM))
    asking = asyncio.ensure_future(call_application(api.application, scope, body))
    await until_async(begun.is_set)
    asking.cancel()
    await asyncio.wait([asking])
    left.set()
    await until_async(lambda: not document)


def test_very_long_parts_without_objects_are_refused(api: Api) -> None:
    for text in ("1," * 70_000, '"a",' * 70_000, "[]," * 70_000):
        for padding in ("", "{}," * 10_000):
            body = f'{{"unknown": [{padding} 1], "other": [{text} 1]}}'.encode()
            assert api.post("/definitions", body).error == (400, "bad_request", TOO_MANY_FREE)
    assert api.post("/definitions", f'{{"unknown": [{"[]," * 20_000} 1, {{}}]}}'.encode()).status == 204


@pytest.mark.parametrize("text", ["name,value\n" * 60_000, '"' + "x" * 6_000_000 + '"', "1," * 200_000])
def test_a_long_file_that_is_no_json_is_not_refused_for_a_limit_of_json(api: Api, text: str) -> None:
    assert api.post("/definitions", text.encode()).error == (400, "bad_request", "failed_to_parse_json")


@pytest.mark.parametrize("around", ['{"a": [%s 0]}', '{"a": [{"a": [%s 0]}]}', '{"a": {"a": [%s 0]}}'])
def test_very_many_lists_that_a_broken_text_would_free_at_once_are_refused(around: str) -> None:
    lists = "{}," + "[[[]]]," * 4_000
    with pytest.raises(HTTPError, match=f"entries, may have {definitions.ENTRY_VALUES} commas and arrays"):
        definitions.decode_document((around % (lists * 10)).encode(), "")
    assert definitions.decode_document((around % (lists * 4)).encode(), "")


def test_entries_are_as_many_as_a_document_has_room_for() -> None:
    assert definitions.decode_document(b'{"a": [' + b'{"b": [1, 2]}, ' * 60_000 + b"{}]}", "")


def test_very_long_strings_are_refused() -> None:
    with pytest.raises(HTTPError, match=f"a string may have {definitions.STRING_BYTES} bytes"):
        definitions.decode_document(b'{"a": "' + rb"x\n" * (ENTRY_BYTES * 3 // 2) + b'"}', "")
    assert definitions.decode_document(b'{"a": "' + rb"\u00e9" * (ENTRY_BYTES // 2) + b'"}', "")


@pytest.mark.parametrize("text", [b'"}"', b'"{"', rb'"\"}"', rb'"\\", "}\\"'])
def test_braces_in_strings_are_no_ends_of_objects(text: bytes) -> None:
    def document(inner: bytes) -> bytes:
        return b'{"k": [' + (inner + b"," + b"0," * 4_000) * 20 + b"0]}"

    with pytest.raises(HTTPError):
        definitions.decode_document(document(text), "")
    assert definitions.decode_document(document(b"{}"), "")


def test_strings_are_skipped_with_blocks_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    text = rb'{"a\"}": [1, "\\", {"\\\"": ""}, "\u00e9\\\\"], "b": "}"}'
    for size in range(1, len(text) + 1):
        monkeypatch.setattr(definitions, "BLOCK_BYTES", size)
        assert b"".join(definitions.without_strings(text)) == b"{: [1, , {: }, ], : }"


def test_very_long_objects_are_refused_before_they_are_decoded(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definitions, "parse_json", None)
    body = b'{"unknown": {' + b'"k": 1,' * 70_000 + b'"k": {}}}'
    assert api.post("/definitions", body).error == (400, "bad_request", TOO_MANY_FREE)


def test_very_long_entries_and_objects_are_refused_or_left_out(api: Api) -> None:
    fields = {f"{number}": {} for number in range(VALUES_LIMIT + 1)}
    answer = api.post("/definitions", {"policies": [{"definition": fields}]})
    assert answer.error == (400, "bad_request", f"an object of JSON may have {VALUES_LIMIT} fields")
    for value, most in (
        ([{} for _ in range(VALUES_LIMIT)], f"{VALUES_LIMIT} values"),
        ("x" * ENTRY_BYTES, f"{ENTRY_BYTES} bytes of text"),
    ):
        document = {"global_parameters": [{"name": "g", "value": value}, {"name": "other", "value": 1}]}
        reason = f'an entry of global_parameters may have {most} (key: "g")'
        assert api.post("/definitions", document).error == (400, "bad_request", reason)
        assert api.post("/definitions?leave-out=true", document).status == 204
        assert "g" not in names(api.get("/definitions").json, "global_parameters")


def test_the_longest_values_that_can_be_set_can_be_imported(api: Api) -> None:
    parts = [b"1," * 32_700, b"[]," * 21_800, b"1e1," * 16_300, b"9e15," * 13_100, b"-1e99," * 10_900]
    parts += [b"1e-7," * 13_100, b"-1.2345678901234567e-300," * 4_995]
    parts += [b'"%b",' % (b"x" * ((1 << 20) - 20 - len(part))) + part for part in (b"9e15," * 4_990, parts[-1])]
    values = [b"[" + part + b"1]" for part in parts] + [b'"' + b"x" * ((1 << 20) - 20) + b'"']
    for number, value in enumerate(values):
        path = f"/global-parameters/{number}" + "n" * 60_000
        assert api.put(path, b'{"value":%b}' % value).status == 201
    document = api.get("/definitions").json
    assert len(imported(document)["global_parameters"]) == len(document["global_parameters"])


def test_a_virtual_host_with_tags_of_any_length_can_be_imported_or_is_refused(api: Api) -> None:
    tags: list[Any] = [["t" * 65_000], ["é" * 10_000], "a," * 10_000, ["abcde"] * 5_000, '"\\' * 4_000]
    for number, each in enumerate(tags):
        assert api.put(f"/vhosts/{number}", {"tags": each}).status == 201
    for path in ("/vhosts/0", "/vhosts/new"):
        assert api.put(path, {"tags": "a," * 10_001}).error[0] == 400
    document = api.get("/definitions").json
    for more in ({"tags": ["a" * 256] * 257}, {"tags": ["a"] * 10_001}, {"metadata": {"tags": ["a" * 65_537]}}):
        assert api.post("/definitions", {"vhosts": [{"name": "v", **more}]}).error[0] == 400
    assert imported(document)["vhosts"] == document["vhosts"]


def test_an_import_is_all_or_nothing(api: Api) -> None:
    before = api.get("/definitions").json
    broken = DOCUMENT | {"policies": [{"vhost": "/", "name": "p", "pattern": "(", "definition": {"max-length": 1}}]}
    elsewhere = DOCUMENT | {"bindings": [{"vhost": "nowhere", "source": "x"}]}
    for document in (broken, elsewhere, DOCUMENT | {"users": 5}, [DOCUMENT]):
        assert api.post("/definitions", document).error[:2] == (400, "bad_request")
    assert api.get("/definitions").json == before


def form(name: str, body: bytes) -> bytes:
    head = f'--limit\r\nContent-Disposition: form-data; name="{name}"; filename="x.json"\r\n'
    return head.encode() + b"Content-Type: application/json\r\n\r\n" + body + b"\r\n--limit--\r\n"


def test_definitions_may_come_in_a_form(api: Api) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=limit"}
    body = json.dumps(DOCUMENT | {"vhosts": [{"name": "vé"}]}, ensure_ascii=False).encode()
    assert api.post("/definitions", form("file", body), headers=headers).status == 204
    assert "vé" in names(api.get("/definitions").json, "vhosts")
    for bad_body in (form("other", body), body, b"", form("file", b"{")):
        assert api.post("/definitions", bad_body, headers=headers).error[:2] == (400, "bad_request")


@pytest.mark.parametrize(("head", "is_file"), [
    (b'Content-Disposition: form-data;\r\n\tfilename="a; b";\r\n name="file"', True),
    (b'Content-Disposition: form-data; name="other"; filename="a; name=file"', False),
    (b'Content-Disposition: form-data; name="other"; filename="; name=file; "', False),
    (b'X: a\r\n name="file"\r\nContent-Disposition: form-data; name="other"', False),
])  # fmt: skip
def test_the_file_of_a_form_is_found_by_its_name_only(head: bytes, is_file: bool) -> None:
    body = b"--limit\r\n" + head + b"\r\n\r\nfirst\r\n" + form("file", b"second")
    media_type = 'multipart/form-data; x="boundary=other"; boundary=limit'
    assert definitions.document_of(body, media_type) == (b"first" if is_file else b"second")


def test_a_file_of_a_form_that_is_encoded_is_refused(api: Api) -> None:
    body = form("file", b"e30=").replace(b"\r\n\r\n", b"\r\ncontent-transfer-encoding: Base64\r\n\r\n", 1)
    answer = api.post("/definitions", body, headers={"Content-Type": "multipart/form-data; boundary=limit"})
    assert answer.error == (400, "bad_request", "the part named file may not have a transfer encoding")


@pytest.mark.parametrize("head", [
    b"Content-Disposition: a" + b";" * (1 << 20),
    b"Content-Disposition: form-data; " + b"a*1*=b; " * 8_000,
    b"Content-Disposition: form-data" + b" ;name=" * 140_000,
    b"\r\n\r\n--limit\r\n" * 60_000,
    b"\r\n--limi" * 110_000,
])  # fmt: skip
def test_a_form_of_any_shape_is_searched_in_a_short_time(head: bytes) -> None:
    body = b"--limit\r\n" + head + b"\r\n\r\n{}\r\n--limit--\r\n"
    begun_s = time.thread_time()
    with pytest.raises(Invalid, match="no part named file"):
        definitions.document_of(body, "multipart/form-data; boundary=limit")
    assert within((time.thread_time() - begun_s) * 1000, 20)


def test_a_protected_user_is_not_changed_by_an_import(api: Api) -> None:
    api.peer.node.users.hashing = FakeHashing()
    api.peer.add_user("chief", ("administrator", "protected"))
    (chief,) = [user for user in api.get("/definitions").json["users"] if user["name"] == "chief"]
    hash_before = api.peer.node.users.get("chief").password_hash  # type: ignore[union-attr]
    every: dict[str, object] = {
        "password_hash": "", "hashing_algorithm": MD5, "tags": ["protected"], "limits": {"max-channels": 1},
    }  # fmt: skip
    assert {"name", *every} == set(chief) == {field.name for field in fields(StoredUser)}
    for changed in (*({key: value} for key, value in every.items()), {"tags": ""}):
        for path in ("/definitions", "/all-configuration"):
            answer = api.post(path, {"users": [chief | changed]})
            assert answer.error == (400, "bad_request", "Protected users cannot be modified via the HTTP API")
    new = {"name": "chief", "password": "new", "tags": chief["tags"]}
    assert api.post("/definitions", {"users": [new]}).status == 400
    unnamed = {key: value for key, value in chief.items() if key != "hashing_algorithm"}
    assert api.post("/definitions", {"rabbit_version": "3.5.0", "users": [unnamed]}).status == 400
    for same in ([chief], [chief, chief], [chief | {"tags": "administrator,protected"}]):
        assert api.post("/definitions", {"users": same}).status == 204
    user = api.peer.node.users.get("chief")
    assert user is not None and user.password_hash == hash_before and "administrator" in user.tags


def test_the_limits_of_a_protected_user_are_not_changed(api: Api) -> None:
    api.peer.add_user("chief", ("administrator", "protected"))
    for answer in (
        api.put("/user-limits/chief/max-connections", {"value": 0}),
        api.delete("/user-limits/chief/max-connections"),
        api.put("/warren/user-limits/chief", {"value": {"max-connections": 0}}),
    ):
        assert answer.error == (400, "bad_request", "Protected users cannot be modified via the HTTP API")


def test_a_user_whom_the_document_itself_protects_is_not_changed_by_a_later_entry(api: Api) -> None:
    chief = {"name": "chief", "password_hash": "", "tags": ["protected"]}
    for field in ({"tags": ["management"]}, {"hashing_algorithm": MD5}):
        changed = {"users": [chief, chief | field], "vhosts": [{"name": "new"}]}
        for path in ("/warren/check-definitions", "/definitions"):
            answer = api.post(path, changed)
            assert answer.error == (400, "bad_request", "Protected users cannot be modified via the HTTP API")
    assert api.peer.node.users.get("chief") is None and "new" not in api.peer.node.vhosts
    assert api.post("/definitions", {"users": [chief, chief]}).status == 204


def test_a_check_reports_skipped_parts_and_refusals_and_changes_nothing(api: Api) -> None:
    queue = {"vhost": "/", "name": "amq.mine", "durable": True, "auto_delete": False, "arguments": {}}
    document = {"queues": [queue, {**queue, "name": "mine"}]}
    checked = api.post("/warren/check-definitions", document)
    assert checked.status == 200 and len(checked.json["skipped"]) == 1
    assert api.get("/queues").json == []
    assert api.post("/warren/check-definitions/%2F", {"queues": [{"name": "mine", "durable": True}]}).status == 200
    refused = api.post("/warren/check-definitions", {"queues": [{**queue, "vhost": "nowhere"}]})
    assert refused.status == 400 and "nowhere" in refused.json["reason"]
    assert api.post("/warren/check-definitions/nowhere", document).status == 404
    assert api.post("/warren/check-definitions", "{").status == 400


def test_users_whose_hash_is_no_password_s_are_imported_and_named(api: Api) -> None:
    """RabbitMQ imports them in silence; here one such hash must not stop an import either."""
    md5 = hash_password("secret", b"salt", MD5).decode()
    users = [
        {"name": "hexadecimal", "password_hash": "5f4dcc3b5aa765d61d8327deb882cf99", "tags": ""},
        {"name": "müller, b", "password_hash": md5, "tags": "", "hashing_algorithm": SHA256},
        {"name": "other", "password_hash": md5, "tags": "", "hashing_algorithm": "rot13"},
        {"name": "nobody", "password_hash": "", "tags": ""},
        {"name": "well", "password_hash": md5, "tags": "management", "hashing_algorithm": MD5},
    ]
    checked = api.post("/warren/check-definitions", {"users": users}).json["skipped"]
    response = api.post("/definitions", {"users": users, **DOCUMENT})
    assert response.status == 204
    assert response.headers["warren-cannot-log-in"] == "hexadecimal, m%C3%BCller%2C%20b, other"
    logged = [str(fields["what"]) for event, _, fields in api.peer.log if event == "definitions"]
    assert logged == checked and len(logged) == 3 and all("cannot log in" in line for line in logged)
    assert api.get("/queues/%2F/q").status == 200
    assert [api.get("/whoami", user=str(user["name"]), password="secret").status for user in users] == [401] * 4 + [200]
    again = api.get("/definitions").json
    assert imported(again) == again


def test_the_header_of_users_without_password_is_bounded(api: Api) -> None:
    users = [{"name": f"{number:03}" + "ü" * 100, "password_hash": "c2hvcnQ=", "tags": ""} for number in range(200)]
    named = api.post("/definitions", {"users": users}).headers["warren-cannot-log-in"].split(", ")
    assert named == [f"{number:03}" + "%C3%BC" * 100 for number in range(6)]


def test_unsupported_entries_are_left_out_on_request(api: Api) -> None:
    """A file of a RabbitMQ with streams, shovels and policies of its plugins."""
    stream = QUEUE | {"name": "stream", "arguments": {"x-queue-type": "stream"}}
    binding = {"vhost": "/", "source": "amq.fanout", "destination_type": "queue", "routing_key": "", "arguments": {}}
    plugins = {"vhost": "/", "name": "s", "pattern": "^s", "definition": {"of-a-plugin": 2}, "priority": 0}
    shovel = {"vhost": "/", "component": "shovel", "name": "move", "value": {"src-uri": "amqp://"}}
    document = {
        "vhosts": [{"name": "v"}],
        "queues": [stream, QUEUE],
        "exchanges": [{"vhost": "/", "name": "jms", "type": "x-jms-topic", "durable": True, "auto_delete": False}],
        "bindings": [binding | {"destination": "stream"}, binding | {"destination": "q"}],
        "policies": [plugins, plugins | {"name": "kept", "definition": {"max-length": 1}}],
        "parameters": [shovel],
        "permissions": [{"user": "nobody", "vhost": "/", "configure": "", "write": "", "read": ""}],
    }
    assert api.post("/definitions", document).status == 400
    skipped = api.post("/warren/check-definitions?leave-out=true", document).json["skipped"]
    sections = ["bindings", "exchanges", "parameters", "permissions", "policies", "queues"]
    assert sorted(line.partition(":")[0] for line in skipped) == sections
    assert api.post("/definitions?leave-out=true", document).status == 204
    after = api.get("/definitions").json
    assert (names(after, "queues"), names(after, "policies"), names(after, "vhosts")) == (["q"], ["kept"], ["/", "v"])
    assert [one["destination"] for one in after["bindings"]] == ["q"] and not after["exchanges"]
    assert [fields["what"] for event, _, fields in api.peer.log if event == "definitions"] == skipped
    assert api.post("/definitions?leave-out=maybe", document).status == 400


def test_a_virtual_host_with_limits_that_are_refused_is_left_out(api: Api) -> None:
    document = {"vhosts": [{"name": "v", "limits": {"max-queues": "bad"}}], "queues": [QUEUE | {"vhost": "v"}]}
    skipped = api.post("/warren/check-definitions?leave-out=true", document).json["skipped"]
    assert [line.partition(":")[0] for line in skipped] == ["vhosts", "queues"]
    assert api.post("/definitions?leave-out=true", document).status == 204
    assert names(api.get("/definitions").json, "vhosts") == ["/"]


def test_there_is_no_export_while_a_part_of_an_import_is_here(api: Api) -> None:
    api.host.imports.under_way = True
    answer = api.get("/definitions")
    assert answer.status == 503 and answer.headers["retry-after"]
    assert answer.json["reason"] == "an import of definitions is under way: a part of them is here"
    api.host.imports.under_way = False
    assert api.get("/definitions").status == 200


def marked(api: Api) -> bool:
    return UNFINISHED_IMPORT in [item["name"] for item in api.get("/global-parameters").json]


@pytest.mark.parametrize("vhost", ["", "/%2F"])
def test_an_interrupted_import_is_in_no_export_until_the_same_document_is_imported(api: Api, vhost: str) -> None:
    text = json.dumps({"queues": [QUEUE] if not vhost else []}, indent=1)
    begin_import(api.peer.node, digest_of(text.encode()), "/" if vhost else None)
    for path in ("/definitions", "/definitions/%2F", "/all-configuration"):
        answer = api.get(path)
        assert answer.status == 503 and answer.json["reason"].endswith(ADVICE)
    assert api.post("/definitions", {}).status == 204 and marked(api)
    assert api.post(f"/definitions{vhost}", (text + "\n").encode()).status == 204
    assert not marked(api) and api.get("/definitions").status == 200


def test_an_administrator_clears_the_mark_of_an_interrupted_import_but_not_of_one_under_way(api: Api) -> None:
    begin_import(api.peer.node, "lost", None)
    path = f"/global-parameters/{UNFINISHED_IMPORT}"
    api.host.imports.under_way = True
    assert api.delete(path).status == 503
    api.host.imports.under_way = False
    assert api.delete(path).status == 204
    assert api.get("/definitions").status == 200
