"""Password hashes of RabbitMQ's algorithms and of argon2id."""

import pytest

from warren.broker.amqp.errors import Invalid
from warren.broker.core.access.passwords import (
    ARGON2ID,
    NOBODY,
    SHA256,
    PasswordRules,
    check_hash,
    hash_password,
    verify_password,
)


def test_the_hash_is_that_of_rabbitmq() -> None:
    # The example of RabbitMQ's guide on passwords: salt 908D C60A, password test12.
    known = b"kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
    assert hash_password("test12", bytes.fromhex("908DC60A")) == known
    assert verify_password(known, b"test12") and not verify_password(known, b"test13")


@pytest.mark.parametrize(
    "algorithm",
    [SHA256, "rabbit_password_hashing_sha512", "rabbit_password_hashing_md5", "SHA256", "SHA512", "MD5"],
)
def test_each_algorithm_of_rabbitmq_and_lavinmq_is_known(algorithm: str) -> None:
    hashed = hash_password("pässword", b"salt", algorithm)
    check_hash(hashed, algorithm)
    assert verify_password(hashed, "pässword".encode(), algorithm)
    assert not verify_password(hashed, b"password", algorithm) and not verify_password(b"*", b"password", algorithm)


@pytest.mark.parametrize(
    "password_hash, algorithm",
    [
        (b"not base64", SHA256),
        (b"c2hvcnQ=", SHA256),
        (hash_password("x", b"salt"), "rabbit_password_hashing_sha512"),
        (hash_password("x", b"salt"), "rot13"),
        (hash_password("x", b"salt"), ARGON2ID),
        (NOBODY.replace(b"m=19456", b"m=9999999"), ARGON2ID),
        (NOBODY.replace(b"t=2", b"t=99"), ARGON2ID),
        (b"", "rot13"),
    ],
)
def test_what_is_no_hash_of_its_algorithm_is_refused(password_hash: bytes, algorithm: str) -> None:
    with pytest.raises(Invalid):
        check_hash(password_hash, algorithm)


def test_an_empty_hash_and_an_argon2id_hash_are_accepted() -> None:
    check_hash(b"", SHA256)
    check_hash(NOBODY, ARGON2ID)


def test_credential_validators_ask_for_length_and_form() -> None:
    PasswordRules().check("")
    rules = PasswordRules(5, "^[a-z]+$")
    rules.check("abcde")
    with pytest.raises(Invalid, match="minimum required password length is set to 5"):
        rules.check("abcd")
    with pytest.raises(Invalid, match="does not match the validator regular expression"):
        rules.check("ABCDE")
    with pytest.raises(Invalid):
        PasswordRules(0, "(")
