import datetime
import ssl
from pathlib import Path

import trustme

from warren.broker.net.certificate_expiry import authority_expiries, server_expiry


def dated(year: int) -> datetime.datetime:
    return datetime.datetime(year, 1, 1)


def test_certificates_tell_until_when_they_hold_those_that_do_no_more_too(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    for year in (2021, 2035):
        leaf = authority.issue_cert("localhost", not_before=dated(2020), not_after=dated(year))
        leaf.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "leaf.pem"))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "leaf.pem")
        context.load_verify_locations(tmp_path / "ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED
        assert server_expiry(context, str(tmp_path / "leaf.pem")) == f"Jan  1 00:00:00 {year} GMT"
    assert authority_expiries(str(tmp_path / "ca.pem")) == ["Jan  1 00:00:00 3000 GMT"]
