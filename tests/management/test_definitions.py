"""Definitions over HTTP (spec/operator.md 1.9, 10)."""

import json
from typing import Any

import pytest

from tests.support.http import Api

QUEUE = {"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
DOCUMENT = {"rabbitmq_version": "4.0.5", "vhosts": [{"name": "v"}], "queues": [QUEUE], "unknown": []}


def names(document: Any, section: str) -> list[str]:
    return [item["name"] for item in document[section]]


@pytest.mark.parametrize("path", ["/definitions", "/all-configuration"])
def test_what_is_exported_can_be_imported_elsewhere(api: Api, path: str) -> None:
    assert api.post(path, DOCUMENT).status == 204
    document = api.get(path).json
    assert names(document, "vhosts") == ["/", "v"] and names(document, "queues") == ["q"]
    other = Api()
    assert other.post(path, document).status == 204
    assert other.get(path).json == document
    other.close()


def test_one_virtual_host_is_exported_and_imported_into_another(api: Api) -> None:
    api.post("/definitions", DOCUMENT)
    document = api.get("/definitions/%2F").json
    assert document["original_vhost_name"] == "/" and "vhost" not in document["queues"][0]
    assert api.post("/definitions/v", document).status == 204
    assert names(api.get("/definitions/v").json, "queues") == ["q"]
    assert api.get("/definitions/nowhere").error == (400, "bad_request", "vhost_not_found")
    assert api.post("/definitions/nowhere", {}).error == (404, "not_found", "vhost_not_found")


def test_a_file_to_write_is_named_without_what_could_break_the_header(api: Api) -> None:
    def told(name: str) -> str:
        return api.get(f"/definitions?download={name}").headers["content-disposition"]

    assert told("my-file.json") == "attachment; filename=my-file.json"
    assert told("a%0d%0ab;%22/") == "attachment; filename=a__b___"


@pytest.mark.parametrize("octets", [b"{", b"\xff", b"[" * 100_000, b'{"queues": NaN}'])
def test_what_is_no_json_is_refused(api: Api, octets: bytes) -> None:
    assert api.post("/definitions", octets).error == (400, "bad_request", "failed_to_parse_json")


def test_an_import_is_all_or_nothing(api: Api) -> None:
    before = api.get("/definitions").json
    broken = DOCUMENT | {"policies": [{"vhost": "/", "name": "p", "pattern": "(", "definition": {"max-length": 1}}]}
    elsewhere = DOCUMENT | {"bindings": [{"vhost": "nowhere", "source": "x"}]}
    for document in (broken, elsewhere, DOCUMENT | {"users": 5}, [DOCUMENT]):
        assert api.post("/definitions", document).error[:2] == (400, "bad_request")
    assert api.get("/definitions").json == before


def form(name: str, octets: bytes) -> bytes:
    head = f'--limit\r\nContent-Disposition: form-data; name="{name}"; filename="x.json"\r\n'
    return head.encode() + b"Content-Type: application/json\r\n\r\n" + octets + b"\r\n--limit--\r\n"


def test_definitions_may_come_in_a_form(api: Api) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=limit"}
    octets = json.dumps(DOCUMENT | {"vhosts": [{"name": "vé"}]}, ensure_ascii=False).encode()
    assert api.post("/definitions", form("file", octets), headers=headers).status == 204
    assert "vé" in names(api.get("/definitions").json, "vhosts")
    for body in (form("other", octets), octets, b"", form("file", b"{")):
        assert api.post("/definitions", body, headers=headers).error[:2] == (400, "bad_request")
