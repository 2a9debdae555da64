"""The keys of a TLS listener: the same for AMQP, the HTTP API and the metrics."""

from __future__ import annotations

from ..key import LIST, Key
from ..value_types import Boolean, FilePath, Text, Words


def tls_keys(prefix: str, field: str) -> tuple[Key, ...]:
    """Return the keys below `prefix`, with their fields in the part of Config that `field` names."""

    def of(name: str) -> str:
        return f"{field}.{name}"

    # The files are reloaded when they change, but not their names.
    return (
        Key(f"{prefix}.certfile", FilePath(), of("certfile"), "PEM, the whole chain"),
        Key(f"{prefix}.keyfile", FilePath(), of("keyfile"), "PEM; default: in the certfile"),
        Key(f"{prefix}.cacertfile", FilePath(), of("cacertfile"), "PEM, authorities for clients"),
        Key(f"{prefix}.password", Text(), of("password"), "of the keyfile", secret=True),
        Key(f"{prefix}.verify", Words("verify_none", "verify_peer"), of("verify"), "request clients' certificates"),
        Key(f"{prefix}.fail_if_no_peer_cert", Boolean(), of("fail_if_no_peer_cert"), "refuse clients without one"),
        Key(f"{prefix}.versions.$", Words("tlsv1.3", "tlsv1.2"), of("versions"), "of TLS; no older ones", LIST),
        Key(f"{prefix}.ciphers.$", Text(empty=False), of("ciphers"), "of TLS 1.2, by OpenSSL's names", LIST),
        Key(
            f"{prefix}.honor_cipher_order", Boolean(), of("honor_cipher_order"), "the broker's order, not the client's"
        ),
    )
