"""HTTP requests: paths, methods, bodies, headers."""

import asyncio
import dataclasses
from pathlib import Path

import pytest

from tests.support.http import Api, asgi_scope, call_application, incoming_of
from tests.support.users import set_tags
from warren.broker.config.config import HTTPListener
from warren.plugins.management.framework.access_log import AccessLog
from warren.plugins.management.service import ManagementService

MISSING = (404, "Object Not Found", "Not Found")


def test_a_slash_at_the_end_counts_for_nothing(api: Api) -> None:
    assert api.get("/vhosts/").body == api.get("/vhosts").body


def test_an_unknown_route_is_an_object_that_is_not_there(api: Api) -> None:
    for path in ("/nope", "/vhosts/%2F/nope/nope", "/%2F", "/nope/%252F"):
        assert api.get(path).error == MISSING


def test_a_wrong_method_gets_the_allowed_ones(api: Api) -> None:
    answer = api.post("/vhosts")
    assert (answer.status, answer.json["error"]) == (405, "method_not_allowed")
    assert set(answer.headers["allow"].split(", ")) >= {"GET", "HEAD", "OPTIONS"}


def test_a_path_in_the_query_reaches_names_that_clients_remove_from_paths(api: Api) -> None:
    at = "/warren/path?path="
    for name in (".", ".."):
        assert api.put(f"{at}queues/%252F/{name}", {"durable": True}).status == 201
        assert api.get(f"{at}/queues/%252F/{name.replace('.', '%252E')}&columns=name").json == {"name": name}
        assert api.get(f"{at}queues/%252F/{name}", user="nobody").status == 401
        assert api.delete(f"{at}queues/%252F/{name}").status == 204
    for wrong in (f"{at}nope", f"{at}/warren/path"):
        assert api.get(wrong).error == MISSING


def test_options_need_no_password(api: Api) -> None:
    answer = api.request("OPTIONS", "/vhosts", user=None)
    assert (answer.status, answer.body) == (200, b"") and "GET" in answer.headers["allow"]


def test_responses_must_not_be_cached_and_have_security_headers(api: Api) -> None:
    headers = api.get("/vhosts").headers
    assert headers["content-type"] == "application/json"
    assert headers["cache-control"] == "no-cache"
    assert headers["vary"] == "accept-encoding, origin"
    assert headers["content-security-policy"] == "script-src 'self'; object-src 'self'"
    assert headers["x-content-type-options"] == "nosniff" and headers["x-frame-options"] == "DENY"
    headers = Api(hsts_policy="max-age=1", frame_options="SAMEORIGIN", csp_policy="x").get("/vhosts").headers
    assert headers["strict-transport-security"] == "max-age=1" and headers["x-frame-options"] == "SAMEORIGIN"
    assert "x-frame-options" not in Api(frame_options="").get("/vhosts").headers
    assert headers["content-security-policy"] == "x"


@pytest.mark.parametrize(
    ("frame_options", "ancestors"),
    [("DENY", "'none'"), ("SAMEORIGIN", "'self'"), ("sameorigin", "'self'"), ("ALLOW-FROM x", "'none'"), ("", "")],
)
def test_pages_may_be_framed_if_configured(frame_options: str, ancestors: str) -> None:
    api = Api(frame_options=frame_options)
    scope, _ = asgi_scope("GET", "")
    headers = asyncio.run(call_application(api.application, scope | {"path": "/", "raw_path": b"/"}, b"")).headers
    assert headers.get("x-frame-options", "") == frame_options
    assert headers["content-security-policy"].partition("; frame-ancestors ")[2] == ancestors
    api.close()


def test_long_responses_are_compressed_if_the_client_accepts_it(api: Api) -> None:
    for number in range(10):
        api.peer.add_vhost(f"v{number}")
    plain, squeezed = api.get("/vhosts"), api.get("/vhosts", headers={"Accept-Encoding": "deflate, gzip"})
    assert "content-encoding" not in plain.headers and squeezed.headers["content-encoding"] == "gzip"
    assert plain.body == squeezed.body
    refused = api.get("/vhosts", headers={"Accept-Encoding": "gzip;q=0"})
    assert "content-encoding" not in refused.headers


@pytest.mark.parametrize(("listener", "scheme"), [("tcp", "http"), ("ssl", "https")])
def test_each_listener_has_its_own_keys(listener: str, scheme: str) -> None:
    api = Api(**{listener: HTTPListener(compress=False)})
    for number in range(10):
        api.peer.add_vhost(f"v{number}")
    other = "https" if scheme == "http" else "http"
    answers = [api.get("/vhosts", headers={"Accept-Encoding": "gzip"}, scheme=each) for each in (scheme, other)]
    assert ["content-encoding" in answer.headers for answer in answers] == [False, True]


def test_a_prefix_applies_to_all_paths() -> None:
    assert Api(path_prefix="/rabbit").get("/vhosts").error == MISSING


def test_allowed_origins_get_cors_headers() -> None:
    api = Api(cors_allow_origins=("http://a.example",))
    asked = {"Origin": "http://a.example"}
    answer = api.get("/vhosts", headers=asked)
    assert answer.headers["access-control-allow-origin"] == "http://a.example"
    assert answer.headers["access-control-allow-credentials"] == "true"
    more = {"Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "authorization"}
    answer = api.request("OPTIONS", "/vhosts", user=None, headers=asked | more)
    assert answer.status == 200 and answer.headers["access-control-max-age"] == "1800"
    assert answer.headers["access-control-allow-headers"] == "authorization"
    assert "access-control-allow-origin" not in api.get("/vhosts", headers={"Origin": "http://b.example"}).headers


def test_requests_are_logged_without_passwords_if_configured(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    api = Api(http_log_dir=str(tmp_path / "log"))
    api.get("/whoami?x=1", headers={"User-Agent": 'a"\nb', "Referer": "r"})
    api.get("/auth/hash_password/secret", password="wrong")
    first, second = (tmp_path / "log" / "access.log").read_text().splitlines()
    assert first.startswith("127.0.0.1 - guest [") and '"GET /api/whoami HTTP/1.1" 200 ' in first
    assert first.endswith('"r" "a\\x22\\x0ab"')
    assert (tmp_path / "log" / "access.log").stat().st_mode & 0o777 == 0o640
    assert second.startswith("127.0.0.1 - - [") and '"GET /api/auth/hash_password/[redacted]" 401 ' in second


def test_basic_authentication_can_be_switched_off() -> None:
    assert Api(disable_basic_auth=True).get("/whoami").error == (401, "not_authorized", "Not_Authorized")


def test_rights_revoked_while_a_body_arrives_do_not_count(api: Api) -> None:
    api.peer.add_user("brief", ("administrator",))
    users = api.host.node.users
    api.while_waiting(lambda: set_tags(users, "brief", ()))
    assert api.put("/cluster-name", {"name": "x"}, user="brief").error == (401, "not_authorised", "Not management user")
    set_tags(users, "brief", ("administrator",))
    api.while_waiting(lambda: users.delete("brief"))
    assert api.put("/cluster-name", {"name": "x"}, user="brief").error == (401, "not_authorized", "Not_Authorized")
    assert api.get("/cluster-name").json["name"] != "x"


def test_an_internal_error_ends_one_request_without_details(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(api.host.node), "cluster_name", property(lambda node: 1 / 0))
    assert api.get("/cluster-name").error == (500, "internal_server_error", "see the broker's log")
    assert api.peer.log.pop()[0] == "internal_error"


def test_a_stream_and_a_path_in_the_query_are_logged_by_their_routes(tmp_path: Path) -> None:
    api = Api(http_log_dir=str(tmp_path))
    assert api.get("/warren/path?path=queues/%252F/..").status == 404
    assert api.get("/warren/trace/%2F?exchange=amq.direct&duration=1").status == 200
    carried, stream = (tmp_path / "access.log").read_text().splitlines()
    assert '"GET /api/queues/%2F/.. HTTP/1.1" 404 ' in carried
    assert "127.0.0.1 - guest [" in stream and '"GET /api/warren/trace/%2F HTTP/1.1" 200 ' in stream


@pytest.mark.parametrize("path", [
    *("/auth/hash%5Fpassword/secret", "/%61uth/%68ash_password/secret", "//auth//hash_password/secret"),
    "/warren/path?path=auth/hash_password/secret",
])  # fmt: skip
def test_a_password_in_a_path_is_not_logged_however_it_is_written(tmp_path: Path, path: str) -> None:
    api = Api(http_log_dir=str(tmp_path))
    api.get(path)
    assert "secret" not in (tmp_path / "access.log").read_text()


def test_a_folder_that_cannot_be_written_fails_the_start_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    api = Api()
    management = dataclasses.replace(api.host.config.management, http_log_dir=str(tmp_path / "file"))
    api.host.config = dataclasses.replace(api.host.config, management=management)
    try:
        with pytest.raises(ValueError, match=r"management\.http_log_dir: .*file: it is a file, and a folder is needed"):
            asyncio.run(ManagementService().start(api.host))
    finally:
        api.close()


def test_requests_are_answered_while_it_cannot_be_written_and_one_error_is_logged(tmp_path: Path) -> None:
    lines: list[tuple[str, str, dict[str, object]]] = []
    log = AccessLog(str(tmp_path / "missing" / "http"), lambda *line: lines.append(line))
    incoming = incoming_of(user="guest")
    for _ in range(3):
        log.write(incoming, "/", 200, 2, 0)
    reason = f"{tmp_path}/missing/http/access.log: there is no such file or folder: check the path"
    assert [(event, fields["reason"]) for event, _, fields in lines] == [("http_log_not_written", reason)]
    log.prepare()
    log.write(incoming, "/", 200, 2, 0)
    assert (tmp_path / "missing" / "http" / "access.log").read_text().startswith("127.0.0.1 - guest ")
