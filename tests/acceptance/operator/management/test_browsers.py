"""Requests of browsers: a page of another site cannot use the credentials that the browser has stored."""

import json
from collections.abc import Iterator

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.http import Api
from warren.broker.plugin import Peer
from warren.plugins.http.responses import HTTPError
from warren.plugins.management.framework.origins import Origins

HOST = "mq.example:15672"
NEW_ADMINISTRATOR = {"users": [{"name": "mallory", "password_hash": "", "tags": "administrator"}]}
FORM_TYPE = "multipart/form-data; boundary=b"
FILE = b'--b\r\nContent-Disposition: form-data; name="file"; filename="d.json"\r\n\r\n'
FORM = FILE + json.dumps(NEW_ADMINISTRATOR).encode() + b"\r\n--b--\r\n"
FORM_TYPES = ("application/x-www-form-urlencoded", "text/plain", FORM_TYPE, "")
ELSEWHERE = (
    {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"},
    {"Origin": "http://other.mq.example:15672", "Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Origin": "http://evil.example"},
    {"Origin": "http://mq.example"},  # a different port
    {"Origin": "null"},
    {"Origin": "http://[mq.example:15672"},
    {"Referer": "http://evil.example/page"},
)
OWN = (
    {"Origin": f"http://{HOST}", "Sec-Fetch-Site": "same-origin"},
    {"Origin": f"http://{HOST.upper()}"},
    {"Referer": f"http://{HOST}/page"},
    {"Sec-Fetch-Site": "none"},
    {"Origin": "https://mq.example", "Sec-Fetch-Site": "same-origin"},  # a proxy with a different name
)


def sent(api: Api, path: str, body: object, kind: str, headers: dict[str, str]) -> int:
    """POST with this Host from another machine; return the status."""
    typed = {"Content-Type": kind} if kind else {}
    # guest may log in from this machine only, and Host is checked for requests to loopback
    return api.post(path, body, headers={"Host": HOST, **typed, **headers}, address="127.0.0.1").status


@pytest.fixture
def api() -> Iterator[Api]:
    made = Api(allowed_hosts=("mq.example",))
    yield made
    made.close()


@pytest.mark.parametrize("headers", ELSEWHERE)
def test_a_page_of_another_site_changes_nothing(api: Api, headers: dict[str, str]) -> None:
    for kind in (*FORM_TYPES, "application/json"):
        assert sent(api, "/definitions", FORM if kind == FORM_TYPE else NEW_ADMINISTRATOR, kind, headers) == 403
    for method, path in (("PUT", "/queues/%2F/q"), ("DELETE", "/vhosts/%2F"), ("GET", "/aliveness-test/%2F")):
        body = {} if method == "PUT" else None
        assert api.request(method, path, body, headers={"Host": HOST, **headers}).status == 403
    assert "mallory" not in [user.name for user in api.peer.node.users.all()]
    assert list(api.peer.node.vhosts["/"].queues) == []


@pytest.mark.parametrize("headers", OWN)
def test_a_page_of_the_node_changes_things_with_json_and_uploads_definitions(api: Api, headers: dict[str, str]) -> None:
    assert sent(api, "/definitions", NEW_ADMINISTRATOR, "application/json; charset=utf-8", headers) == 204
    assert sent(api, "/definitions", FORM, FORM_TYPE, headers) == 204
    assert sent(api, "/users/bulk-delete", {"users": ["mallory"]}, "application/json", headers) == 204
    assert api.delete("/vhosts/%2F", headers={"Host": HOST, **headers}).status == 204


@pytest.mark.parametrize("headers", OWN)
def test_a_browser_must_name_the_content_type_json(api: Api, headers: dict[str, str]) -> None:
    for kind in FORM_TYPES:
        assert sent(api, "/users/bulk-delete", {"users": ["guest"]}, kind, headers) == 415
    assert "guest" in [user.name for user in api.peer.node.users.all()]


@pytest.mark.parametrize("kind", FORM_TYPES)
def test_a_script_sends_json_by_any_name(api: Api, kind: str) -> None:
    body = FORM if kind == FORM_TYPE else NEW_ADMINISTRATOR
    assert sent(api, "/definitions", body, kind, {}) == 204
    assert sent(api, "/queues/%2F/none/get", {}, kind, {}) == 400  # count is missing


def test_pages_read_as_before(api: Api) -> None:
    assert api.get("/vhosts", headers={"Host": HOST, "Origin": "http://evil.example"}).status == 200


def test_an_allowed_origin_must_send_json() -> None:
    api = Api(cors_allow_origins=("http://a.example",), allowed_hosts=("mq.example",))
    headers = {"Origin": "http://a.example", "Sec-Fetch-Site": "cross-site"}
    assert sent(api, "/definitions", NEW_ADMINISTRATOR, "application/json", headers) == 204
    assert sent(api, "/definitions", FORM, FORM_TYPE, headers) == 415
    assert sent(api, "/rebalance/queues", b"", "", headers) == 415
    assert api.delete("/users/mallory", headers={"Host": HOST, **headers}).status == 204
    assert sent(api, "/definitions", {}, "application/json", {"Origin": "http://b.example"}) == 403
    api.close()


def test_any_origin_is_allowed_without_stored_credentials() -> None:
    api = Api(cors_allow_origins=("*",))
    headers = {"Origin": "http://a.example", "Sec-Fetch-Site": "cross-site"}
    answer = api.get("/vhosts", headers=headers)
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in answer.headers
    assert api.post("/definitions", FORM, headers=headers | {"Content-Type": FORM_TYPE}).status == 415
    assert api.post("/definitions", {}, headers=headers | {"Content-Type": "application/json"}).status == 204
    api.close()


@pytest.mark.parametrize("host", ["evil.example:15672", "localhost.evil.example", "127.0.0.1.evil.example", "0x7f.1"])
def test_a_loopback_address_refuses_the_name_of_another_site(api: Api, host: str) -> None:
    for method in ("GET", "PUT"):
        answer = api.request(method, "/vhosts/v", headers={"Host": host})
        assert answer.status == 403 and "management.allowed_hosts" in answer.json["reason"]


@pytest.mark.parametrize("host", ["localhost:15672", "a.localhost", "127.0.0.1", "[::1]:15672", "192.0.2.1", HOST])
def test_a_loopback_address_accepts_names_of_this_machine_and_allowed_ones(api: Api, host: str) -> None:
    assert api.get("/vhosts", headers={"Host": host}).status == 200


@pytest.mark.parametrize("host", ["", ".", ":15672", "x@"])
def test_the_empty_name_is_none_of_a_node_whose_name_has_no_host(host: str) -> None:
    with pytest.raises(HTTPError):
        Origins((), (), "shop").check_host({"host": host}, Peer("127.0.0.1", 1, "127.0.0.1", 15672, True))


@pytest.mark.sockets
def test_the_form_of_another_site_makes_no_administrator_and_a_script_does(broker: BrokerProcess) -> None:
    def posted(body: bytes, **headers: str) -> int:
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        return broker.http().post("/definitions", body, headers=named).status

    elsewhere = {"Origin": "http://evil.example", "Sec_Fetch_Site": "cross-site"}
    assert posted(FORM, Content_Type=FORM_TYPE, **elsewhere) == 403
    assert posted(FORM, Content_Type=FORM_TYPE, Host="evil.example", Origin="http://evil.example") == 403
    assert posted(json.dumps(NEW_ADMINISTRATOR).encode(), Content_Type="application/x-www-form-urlencoded") == 204
