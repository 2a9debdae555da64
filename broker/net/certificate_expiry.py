"""Until when certificates hold, as OpenSSL writes it: `Jan  1 00:00:00 2027 GMT`.

Python reads the fields of a certificate only where a peer has shown it, so the one of a server is shown to a client in
memory, who trusts it whatever its age.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping

NO_CHECK_TIME = ssl.VerifyFlags(0x200000)  # OpenSSL's X509_V_FLAG_NO_CHECK_TIME, for which Python has no name
TURNS = 3


def server_expiry(context: ssl.SSLContext, certfile: str) -> str:
    """Of the certificate that a server shows. Raises OSError (ssl.SSLError is one)."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.load_verify_locations(certfile)
    trusting.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | NO_CHECK_TIME
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(back, there)
    server = context.wrap_bio(there, back, server_side=True)
    for end in (client, server) * TURNS:
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
        if end is client:
            break
    return not_after(client.getpeercert() or {})


def authority_expiries(cacertfile: str) -> list[str]:
    """Of all that sign certificates of clients. Raises OSError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cacertfile)
    return [not_after(one) for one in context.get_ca_certs()]


def not_after(certificate: Mapping[str, object]) -> str:
    return str(certificate.get("notAfter", ""))
