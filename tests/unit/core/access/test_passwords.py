"""Password hashes of RabbitMQ's algorithms and of argon2id."""

import time

import pytest

from tests.support.speed import without_collector
from warren.broker.amqp.errors import Invalid
from warren.broker.core.access.passwords import (
    ARGON2ID,
    NOBODY,
    SHA256,
    PasswordRules,
    check_hash,
    has_password,
    hash_password,
    verify_password,
)


def test_the_hash_is_that_of_rabbitmq() -> None:
    # The example of RabbitMQ's guide on passwords: salt 908D C60A, password test12.
    known = b"kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
    assert hash_password("test12", bytes.fromhex("908DC60A")) == known
    assert verify_password(known, b"test12") and not verify_password(known, b"test13")


@pytest.mark.parametrize(
    "algorithm", [SHA256, "rabbit_password_hashing_sha512", "rabbit_password_hashing_md5", "SHA256", "SHA512", "MD5"]
)
def test_each_algorithm_of_rabbitmq_and_lavinmq_is_known(algorithm: str) -> None:
    hashed = hash_password("pässword", b"salt", algorithm)
    assert check_hash(hashed, algorithm) == hashed and has_password(hashed, algorithm)
    assert verify_password(hashed, "pässword".encode(), algorithm)
    assert not verify_password(hashed, b"password", algorithm) and not verify_password(b"*", b"password", algorithm)


@pytest.mark.parametrize(
    "password_hash, algorithm",
    [
        (b"not base64", SHA256),
        (b"c2hvcnQ", SHA256),
        (b"$2b$12$abcdefghijklmnopqrstuv", "Bcrypt"),
        (hash_password("x", b"salt"), ARGON2ID),
        (NOBODY.replace(b"m=19456", b"m=9999999"), ARGON2ID),
        (NOBODY.replace(b"t=2", b"t=99"), ARGON2ID),
    ],
)
def test_what_is_no_hash_of_its_algorithm_is_refused(password_hash: bytes, algorithm: str) -> None:
    with pytest.raises(Invalid):
        check_hash(password_hash, algorithm)


def test_an_empty_hash_and_an_argon2id_hash_are_accepted() -> None:
    assert (check_hash(b"", SHA256), check_hash(NOBODY, ARGON2ID), check_hash(b"", ARGON2ID)) == (b"", NOBODY, b"")
    assert not has_password(b"", SHA256) and not has_password(b"", ARGON2ID) and has_password(NOBODY, ARGON2ID)


def test_white_space_in_a_hash_is_ignored() -> None:
    hashed = hash_password("x", b"salt")
    assert check_hash(hashed[:20] + b"\r\n " + hashed[20:] + b"\n", SHA256) == hashed


@pytest.mark.parametrize(
    "password_hash, algorithm",
    [
        (b"5f4dcc3b5aa765d61d8327deb882cf99", SHA256),  # MD5 in hexadecimal, as old scripts write it
        (b"c2hvcnQ=", SHA256),
        (hash_password("x", b"salt"), "rabbit_password_hashing_sha512"),
        (hash_password("x", b"salt", "rabbit_password_hashing_md5"), SHA256),
        (hash_password("x", b"salt"), "rot13"),
        (b"", "rot13"),
    ],
)
def test_a_hash_that_is_not_one_of_its_algorithm_has_no_password(password_hash: bytes, algorithm: str) -> None:
    assert check_hash(password_hash, algorithm) == password_hash
    assert not has_password(password_hash, algorithm)
    for password in (b"", b"x"):
        assert algorithm == "rot13" or not verify_password(password_hash, password, algorithm)


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


def test_a_validator_that_would_take_seconds_refuses_the_password() -> None:
    rules = PasswordRules(0, "^(a|aa)+$")
    rules.check("a" * 20)
    with without_collector():
        begun_s = time.thread_time()
        with pytest.raises(Invalid, match="takes too long"):
            rules.check("a" * 100 + "b")
        assert time.thread_time() - begun_s < 0.1
    PasswordRules(0, "^[[:alpha:]]++$").check("abc")  # the syntax that the configuration is checked for
