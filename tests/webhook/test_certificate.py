from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption

from injector.errors import ConfigError
from injector.webhook.tls.certificate import Certificate, CertificateFiles, Pair, format_time, read_pair
from tests.webhook.certificates import Issued, Order, authority, ec_key, issue, pem_of, rsa_key

FILES = CertificateFiles(Path("tls.crt"), Path("tls.key"), Path("ca.crt"))
GOOD = issue()


def pair_of(issued: Issued, root: Issued | None = None) -> Pair:
    return Pair(issued.chain_pem, issued.key_pem, None if root is None else root.chain_pem)


def test_a_pair_tells_its_names_its_dates_and_its_fingerprint() -> None:
    order = Order(names=("a.example", "b.example", "10.0.0.1", "2001:db8::1"), since=-2, until=5)
    issued = issue(order)

    found = read_pair(pair_of(issued), FILES)

    assert found.names == order.names
    assert (found.not_before, found.not_after) == pytest.approx(
        (order.now.timestamp() - 7200, order.now.timestamp() + 18000), abs=1
    )
    assert found.fingerprint == issued.fingerprint


@pytest.mark.parametrize("key", [ec_key, rsa_key])
def test_keys_of_every_usual_kind_are_read(key: object) -> None:
    assert read_pair(pair_of(issue(Order(key=key))), FILES).names == ("localhost",)  # type: ignore[arg-type]


def test_a_certificate_of_the_authority_and_one_of_an_intermediate_of_it_are_good() -> None:
    root = authority()
    between = authority("between")
    leaf = issue(issuer=between)
    below = issue(issuer=root)

    assert read_pair(pair_of(below, root), FILES)
    assert read_pair(Pair(leaf.chain_pem + between.chain_pem, leaf.key_pem, between.chain_pem), FILES)


def _encrypted(issued: Issued) -> bytes:
    return pem_of(issued.key, BestAvailableEncryption(b"password"))


def broken() -> dict[str, tuple[Pair, str]]:
    """Pairs that cannot be used, and what is said of each."""
    other, root = issue(), authority()
    chain, key = GOOD.chain_pem, GOOD.key_pem
    return {
        "no PEM": (Pair(b"garbage", key), "tls.crt: not a PEM certificate; give a certificate chain"),
        "an empty certificate": (Pair(b"", key), "tls.crt: not a PEM certificate"),
        "half a certificate": (Pair(chain[: len(chain) // 2], key), "tls.crt: not a PEM certificate"),
        "half an intermediate": (Pair(chain + chain[: len(chain) // 2], key), "tls.crt: "),
        "no PEM as key": (Pair(chain, b"garbage"), "tls.key: not a PEM key; give the unencrypted key of tls.crt"),
        "half a key": (Pair(chain, key[: len(key) // 2]), "tls.key: not a PEM key"),
        "an encrypted key": (Pair(chain, _encrypted(GOOD)), "tls.key: it is encrypted; give the unencrypted key"),
        "another's key": (
            Pair(chain, other.key_pem),
            "tls.key: the key belongs to another certificate; give the key of",
        ),
        "no name": (pair_of(issue(Order(names=()))), "tls.crt: it has no DNS name, and API servers ignore"),
        "another authority": (pair_of(GOOD, root), "ca.crt: it did not sign the certificate of tls.crt; give"),
        "an authority that is no PEM": (Pair(chain, key, b"garbage"), "ca.crt: not a PEM certificate"),
    }


BROKEN = broken()


@pytest.mark.parametrize(("pair", "says"), BROKEN.values(), ids=BROKEN)
def test_a_pair_that_cannot_be_used_is_refused_with_the_file_and_what_to_do(pair: Pair, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_pair(pair, FILES)

    assert str(caught.value).startswith(says)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("now", "says"),
    [
        (99.0, "it is not valid before 1970-01-01T00:01:40Z"),
        (100.0, ""),
        (200.0, ""),
        (200.5, "it expired at 1970-01-01T00:03:20Z"),
    ],
)
def test_a_certificate_is_good_within_its_dates(now: float, says: str) -> None:
    assert Certificate(("a",), 100.0, 200.0, "f").fault(now) == says


def test_a_certificate_is_told_in_one_line() -> None:
    assert str(Certificate(("a", "b"), 0.0, 200.0, "f00d")) == "for a, b, until 1970-01-01T00:03:20Z, SHA-256 f00d"


@pytest.mark.parametrize("part", range(3))
def test_the_fingerprint_of_a_pair_changes_with_each_file(part: int) -> None:
    files = [b"chain", b"key", b"authority"]
    before = Pair(*files).fingerprint
    files[part] += b" "

    assert Pair(*files).fingerprint != before
    assert Pair(b"ab", b"c").fingerprint != Pair(b"a", b"bc").fingerprint


def test_times_are_shown_in_utc() -> None:
    assert format_time(0.9) == "1970-01-01T00:00:00Z"
