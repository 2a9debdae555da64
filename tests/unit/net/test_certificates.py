"""Fields of certificates in RabbitMQ's form."""

import datetime
import ssl
from pathlib import Path

import pytest
import trustme

from warren.broker.net.certificates import (
    authority_expiries,
    distinguished_name,
    escape,
    login_name,
    server_expiry,
    validity,
)

SUBJECT = (
    (("countryName", "FR"),),
    (("organizationName", "Acme, Inc."),),
    (("commonName", "client"), ("emailAddress", "a@b.c")),
    (("1.2.3.4", "own"),),
)


def test_the_last_name_comes_first():
    assert distinguished_name(SUBJECT) == "1.2.3.4=own,CN=client+EMAILADDRESS=a@b.c,O=Acme\\, Inc.,C=FR"
    assert distinguished_name(()) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain text", "plain text"),
        (' a"b+c;d<e>f\\g ', '\\ a\\"b\\+c\\;d\\<e\\>f\\\\g\\ '),
        ("#a#", "\\#a#"),
        ("é~\n", "\\C3\\A9\\7E\\0A"),
    ],
)
def test_what_would_be_mistaken_is_escaped(value: str, text: str):
    assert escape(value) == text


def test_a_user_is_named_by_what_was_chosen():
    alternatives = (("email", "a@b.c"), ("DNS", "first.example"), ("DNS", "second.example"))
    certificate = {"subject": SUBJECT, "subjectAltName": alternatives}
    assert login_name(certificate, "distinguished_name") == distinguished_name(SUBJECT)
    assert login_name(certificate, "common_name") == "client"
    assert login_name(certificate, "subject_alternative_name") == "first.example"
    for login_from in ("distinguished_name", "common_name", "subject_alternative_name"):
        assert login_name({}, login_from) is None


def test_validity_is_two_times():
    certificate = {"notBefore": "Jan  5 09:34:43 2026 GMT", "notAfter": "Jan  5 09:34:43 2027 GMT"}
    assert validity(certificate) == "2026-01-05T09:34:43Z - 2027-01-05T09:34:43Z"
    assert validity({}) == ""


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
