"""Fields of certificates: names and users in RabbitMQ's form, and dates of expiry."""

import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

DISTINGUISHED_NAME, COMMON_NAME, ALTERNATIVE_NAME = "distinguished_name", "common_name", "subject_alternative_name"

SHORT_NAMES = {
    "surname": "SN",
    "givenName": "GIVENNAME",
    "initials": "INITIALS",
    "generationQualifier": "GENERATIONQUALIFIER",
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "title": "TITLE",
    "countryName": "C",
    "serialNumber": "SERIALNUMBER",
    "pseudonym": "PSEUDONYM",
    "domainComponent": "DC",
    "emailAddress": "EMAILADDRESS",
    "streetAddress": "STREET",
    "userId": "UID",
}
NO_CHECK_TIME = ssl.VerifyFlags(0x200000)  # X509_V_FLAG_NO_CHECK_TIME of OpenSSL, which Python does not name
HANDSHAKE_TURNS = 3
ESCAPED = '"+,;<>\\'

Certificate = Mapping[str, Any]
"""The form of `ssl`: `subject` and `issuer` are sequences of relative names, each of (attribute, value) pairs."""


def distinguished_name(names: tuple[tuple[tuple[str, str], ...], ...]) -> str:
    """Format a name as in RFC 2253, the last relative name first: `CN=client,O=acme`."""
    return ",".join("+".join(f"{SHORT_NAMES.get(kind, kind)}={escape(value)}" for kind, value in relative)
                    for relative in reversed(names))  # fmt: skip


def escape(value: str) -> str:
    """Escape a value: bytes that are not printable ASCII as `\\XX`; special characters with a backslash."""
    encoded = value.encode()
    last = len(encoded) - 1
    text = ""
    for at, byte in enumerate(encoded):
        char = chr(byte)
        if byte < 32 or byte >= 126:
            text += f"\\{byte:02X}"
        elif char in ESCAPED or (char == " " and at in (0, last)) or (char == "#" and at == 0):
            text += "\\" + char
        else:
            text += char
    return text


def login_name(certificate: Certificate, login_from: str) -> str | None:
    """Return the user that the certificate names, or None."""
    subject = certificate.get("subject", ())
    if login_from == DISTINGUISHED_NAME:
        return distinguished_name(subject) or None
    if login_from == COMMON_NAME:
        names = [value for relative in subject for kind, value in relative if kind == "commonName"]
        return ",".join(names) or None
    return next((value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"), None)


def validity(certificate: Certificate) -> str:
    """Return the validity as `2026-01-01T00:00:00Z - 2027-01-01T00:00:00Z`, or an empty text."""
    times = [certificate.get(name) for name in ("notBefore", "notAfter")]
    return " - ".join(
        datetime.fromtimestamp(ssl.cert_time_to_seconds(time), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for time in times
        if time is not None
    )


def server_expiry(context: ssl.SSLContext, certfile: str) -> str:
    """Return the date of expiry of a server's certificate as OpenSSL writes it: `Jan  1 00:00:00 2027 GMT`.

    Python reads only the fields of a peer's certificate. So the server's certificate is presented to a client in
    memory, which accepts expired ones. Raises OSError (ssl.SSLError is one).
    """
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.load_verify_locations(certfile)
    trusting.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | NO_CHECK_TIME
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(back, there)
    server = context.wrap_bio(there, back, server_side=True)
    for end in (client, server) * HANDSHAKE_TURNS:
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
        if end is client:
            break
    return not_after(client.getpeercert() or {})


def authority_expiries(cacertfile: str) -> list[str]:
    """Return the dates of expiry of all authorities that sign clients' certificates. Raises OSError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cacertfile)
    return [not_after(one) for one in context.get_ca_certs()]


def not_after(certificate: Mapping[str, object]) -> str:
    """Return the date of expiry, or an empty text."""
    return str(certificate.get("notAfter", ""))
