"""Every word that the broker accepts has an effect: its value is read somewhere outside of its validation.

The words are keys of policies, arguments, options of upstreams and their URIs, and limits. Those without an effect are
listed with the reason, and in docs/migration.md. Keys of the configuration: tests/unit/config/test_keys_are_read.py.
"""

import ast
import importlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from warren.broker.core.metadata.queue_types import CLASSIC, QUORUM
from warren.broker.core.policies import upstream_parameters
from warren.broker.core.policies.limits import OF_USER, OF_VHOST
from warren.broker.core.policies.policy_keys import KEYS
from warren.broker.core.policies.upstream_parameters import OPTIONS
from warren.broker.core.queues.arguments import EXCHANGE_ARGUMENTS, KNOWN, OF_STREAM_CONSUMERS, UNSUPPORTED

READERS = ("broker/core", "broker/session", "federation", "plugins/exchanges")
VALIDATION = {
    "broker/core/metadata/policy.py", "broker/core/policies/policy_keys.py", "broker/core/queues/arguments.py",
    "broker/core/policies/upstream_parameters.py", "broker/core/telemetry/event_fields.py",
}  # fmt: skip
WORDS: dict[str, Iterable[str]] = {
    "keys of policies": KEYS,
    "arguments of queues": KNOWN,
    "arguments that some types of queues refuse": {key for keys in UNSUPPORTED.values() for key in keys},
    "arguments of consumers": ("x-priority", *OF_STREAM_CONSUMERS),
    "arguments of exchanges": EXCHANGE_ARGUMENTS,
    "options of upstreams": ("uri", "drain", "upstream", *OPTIONS),
    "parameters of URIs": (*upstream_parameters._INTEGERS, *upstream_parameters._TLS, "auth_mechanism", "depth"),
    "limits": (*OF_VHOST, *OF_USER),
}
ONE_NODE = "there is one active node"
STREAMS_ONLY = "of streams; RabbitMQ refuses or ignores it elsewhere"
NO_EFFECT_ANYWHERE = "RabbitMQ 4 has none either"
WITHOUT_EFFECT = {
    **dict.fromkeys(("consumer-disconnected-timeout", "initial-cluster-size", "target-group-size"), ONE_NODE),
    **dict.fromkeys(("quorum-initial-group-size", "quorum-target-group-size"), ONE_NODE),
    **dict.fromkeys(("queue-leader-locator", "queue-master-locator"), ONE_NODE),
    **dict.fromkeys(("max-age", "stream-filter-size-bytes", "stream-max-segment-size-bytes"), STREAMS_ONLY),
    **dict.fromkeys(("max-in-memory-length", "max-in-memory-bytes", "queue-mode", "queue-version"), NO_EFFECT_ANYWHERE),
    **dict.fromkeys(("ha-mode", "ha-params", "ha-sync-mode", "ha-sync-batch-size"), "of RabbitMQ 3"),
    **dict.fromkeys(("ha-promote-on-shutdown", "ha-promote-on-failure"), "of RabbitMQ 3"),
    **dict.fromkeys(("credit", "purpose", "cancel-on-ha-failover", "ha-policy"), NO_EFFECT_ANYWHERE),  # unknown here
    "customize_hostname_check": "names in certificates may have wildcards without it",
    "fail_if_no_peer_cert": "a server's option",
    "depth": "ssl has no limit for the length of a chain of certificates",
}


@cache
def texts_read() -> frozenset[str]:
    """Return the texts that occur in code outside of validation, as constants or as names of constants."""
    return frozenset(text for folder in READERS for path in (ROOT / folder).rglob("*.py") for text in texts_of(path))


def texts_of(path: Path) -> Iterator[str]:
    relative = path.relative_to(ROOT)
    if relative.as_posix() in VALIDATION:
        return
    module = importlib.import_module(".".join(("warren", *relative.with_suffix("").parts)).removesuffix(".__init__"))
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant):
            value = node.value
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            value = getattr(module, node.id, None)
        else:
            continue
        for text in value if isinstance(value, tuple) else (value,):
            if isinstance(text, str):
                yield text


@pytest.mark.parametrize("kind", WORDS)
def test_every_accepted_word_has_a_reader(kind: str) -> None:
    refused = ("x-delayed-retry-", *OF_STREAM_CONSUMERS, *set(UNSUPPORTED[CLASSIC]).intersection(UNSUPPORTED[QUORUM]))
    words = [word.removeprefix("x-") for word in WORDS[kind] if not word.startswith(refused)]
    read = texts_read()
    unread = [word for word in words if word not in read and f"x-{word}" not in read]
    assert sorted(word for word in unread if word not in WITHOUT_EFFECT) == []


def test_words_without_effect_are_named_in_the_documents() -> None:
    page = (ROOT / "docs" / "migration.md").read_text(encoding="utf-8")
    assert [word for word in WITHOUT_EFFECT if f"`{word}`" not in page] == []
