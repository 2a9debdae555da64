"""The files of the user interface over HTTP: nothing outside their folder, and headers of security on each response."""

from http.client import HTTPConnection, HTTPResponse

import pytest

from tests.support.broker_process import BrokerProcess

OUTSIDE = (
    *("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc/passwd", "//etc/passwd", "/..%5c..%5c"),
    *("/../ui_files.py", "/core", "/core/", "/core/%00", "/%ff", "/%0d%0aX:y", f"/{'a' * 5000}"),
)


def answer(broker: BrokerProcess, method: str, path: str, **headers: str) -> tuple[HTTPResponse, bytes]:
    """The response to a request whose path is sent as it is."""
    host, _, port = broker.addresses["http"][0].rpartition(":")
    connection = HTTPConnection(host, int(port), timeout=30)
    connection.request(method, path, headers={name.replace("_", "-"): text for name, text in headers.items()})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response, body


@pytest.mark.sockets
def test_only_files_of_the_folder_are_served_and_each_response_has_the_headers(broker: BrokerProcess) -> None:
    tag = answer(broker, "GET", "/app.js")[0].headers["etag"]
    found = [answer(broker, "GET", path) for path in OUTSIDE]
    assert [(response.status, body) for response, body in found] == [(404, b"")] * len(OUTSIDE)
    found += [answer(broker, "HEAD", "/app.js"), answer(broker, "GET", "/app.js", If_None_Match=tag)]
    found += [answer(broker, "POST", "/"), answer(broker, "GET", "/app.js", Range="x")]
    assert [response.status for response, _ in found[len(OUTSIDE) :]] == [200, 304, 405, 400]
    assert [body for _, body in found[len(OUTSIDE) : -1]] == [b""] * 3
    for response, _ in found:
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
        assert response.headers["x-frame-options"] == "DENY"
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"
