"""RabbitMQ's file of enabled plugins: which of them no plugin of this broker replaces."""

from pathlib import Path

import pytest

from warren.broker.operator.feature_flags import VARIABLE, missing_plugins

KNOWN = ("rabbitmq_federation", "rabbitmq_management")


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("[rabbitmq_management,rabbitmq_federation].", []),
        ("[rabbitmq_management,\n rabbitmq_mqtt, rabbitmq_stream].\n", ["rabbitmq_mqtt", "rabbitmq_stream"]),
        ("%% rabbitmq_shovel\n[rabbitmq_management].", []),
        ("[].", []),
        ("", []),
    ],
)
def test_plugins_that_nothing_replaces_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, missing: list[str]
) -> None:
    file = tmp_path / "enabled_plugins"
    file.write_text(text)
    monkeypatch.setenv(VARIABLE, str(file))
    assert missing_plugins(KNOWN) == missing


def test_without_the_file_nothing_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert missing_plugins(KNOWN) == []
    monkeypatch.setenv(VARIABLE, str(tmp_path / "none"))
    assert missing_plugins(KNOWN) == []
