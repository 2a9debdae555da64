"""The files of the user interface over HTTP: nothing outside their folder, and headers of security on each response."""

import gzip
from contextlib import closing
from http.client import HTTPResponse
from pathlib import Path

import pytest

from tests.support.broker_process import ANY_PORT, BrokerProcess
from warren.plugins.management.ui_files import FOLDER

OUTSIDE = (
    *("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc/passwd", "//etc/passwd", "/..%5c..%5c"),
    *("/../ui_files.py", "/core", "/core/", "/core/..", "/core/../app.js", "/core/%00", "/%ff", "/%0d%0aX:y"),
    f"/{'a' * 5000}",
)


def answer(broker: BrokerProcess, method: str, path: str, **headers: str) -> tuple[HTTPResponse, bytes]:
    """The response to a request whose path is sent as it is."""
    with closing(broker.http().connect()) as connection:
        connection.request(method, path, headers={name.replace("_", "-"): text for name, text in headers.items()})
        response = connection.getresponse()
        return response, response.read()


@pytest.mark.sockets
def test_only_files_of_the_folder_are_served_and_each_response_has_the_headers(broker: BrokerProcess) -> None:
    tag = answer(broker, "GET", "/app.js")[0].headers["etag"]
    found = [answer(broker, "GET", path) for path in OUTSIDE]
    assert [(response.status, body) for response, body in found] == [(404, b"")] * len(OUTSIDE)
    found += [answer(broker, "HEAD", "/app.js"), answer(broker, "GET", "/app.js", If_None_Match=tag)]
    found += [answer(broker, "POST", "/"), answer(broker, "GET", "/app.js", Range="x")]
    assert [response.status for response, _ in found[len(OUTSIDE) :]] == [200, 304, 405, 200]
    assert [body for _, body in found[len(OUTSIDE) : -1]] == [b""] * 3
    for response, _ in found:
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
        assert response.headers["x-frame-options"] == "DENY"
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"


@pytest.mark.sockets
def test_where_rabbitmqadmin_was_a_line_says_where_to_get_it(broker: BrokerProcess) -> None:
    for path in ("/cli/", "/cli/index.html", "/cli/rabbitmqadmin"):
        response, body = answer(broker, "GET", path)
        assert response.status == 404 and response.headers["content-type"].startswith("text/plain")
        assert b"https://www.rabbitmq.com/docs/management-cli" in body and b"warrenctl" in body


@pytest.mark.sockets
def test_clients_that_accept_it_get_files_compressed_with_a_tag_of_their_own(broker: BrokerProcess) -> None:
    content = (FOLDER / "app.js").read_bytes()
    plain, body = answer(broker, "GET", "/app.js")
    assert body == content and "content-encoding" not in plain.headers
    squeezed, body = answer(broker, "GET", "/app.js", Accept_Encoding="gzip, br")
    assert gzip.decompress(body) == content and squeezed.headers["content-encoding"] == "gzip"
    head, _ = answer(broker, "HEAD", "/app.js", Accept_Encoding="gzip")
    for name in ("etag", "content-length", "content-type", "content-encoding"):
        assert head.headers[name] == squeezed.headers[name]
    tags = [plain.headers["etag"], squeezed.headers["etag"]]
    assert tags[0] != tags[1] and not any(tag.startswith("W/") for tag in tags)
    for response in (plain, squeezed):
        assert response.headers["cache-control"] == "no-cache" and "accept-encoding" in response.headers["vary"]
    for held, accepted in ((tags[1], "gzip"), (f'"x", W/{tags[0]}', ""), ("*", "")):
        again, body = answer(broker, "GET", "/app.js", If_None_Match=held, Accept_Encoding=accepted)
        assert (again.status, body) == (304, b"") and again.headers["etag"] in tags
    assert answer(broker, "GET", "/app.js", If_None_Match=tags[0], Accept_Encoding="gzip")[0].status == 200


@pytest.mark.sockets
def test_a_prefix_is_before_each_path(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, "--http", ANY_PORT, memory=True)
    broker.configure("management.path_prefix = /mq")
    with broker:
        moved = answer(broker, "GET", "/mq")[0]
        assert (moved.status, moved.headers["location"]) == (307, "/mq/")
        page = answer(broker, "GET", "/mq/")
        assert b"app.js" in page[1]
        paths = ("/mq/core/api.js", "/mq/api/overview", "/", "/app.js", "/core/..", "/mq/core/..", "/mqx")
        assert [answer(broker, "GET", path)[0].status for path in paths] == [200, 401, 404, 404, 404, 404, 404]
