"""Signatures of minisign: those of the tool itself, and all that must not pass."""

import pytest

from glaim_stream.core.errors import ModelError
from glaim_stream.core.trust import PublicKey
from tests.models.signing import Signer

# Made by minisign itself, published with the libraries of its author; the signed file contains `test`.
KEY = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"
SIGNATURE = b"""untrusted comment: signature from minisign secret key
RUQf6LRCGA9i559r3g7V1qNyJDApGip8MfqcadIgT9CuhV3EMhHoN1mGTkUidF/z7SrlQgXdy8ofjb7bNJJylDOocrCo8KLzZwo=
trusted comment: timestamp:1556193335\tfile:test
y/rUw2y8/hOUYjZU71eHp/Wo1KZ40fGy2VJEDl34XMJM+TX48Ss/17u3IvIfbVR1FkZZSNCisQbuQY+bHwhEBg==
"""


@pytest.mark.parametrize("key", [KEY, f"untrusted comment: minisign public key\n{KEY}\n"])
def test_a_signature_of_the_tool_is_verified(key: str) -> None:
    PublicKey.parse(key).verify(b"test", SIGNATURE, "file")


@pytest.mark.parametrize(
    ("content", "signature"),
    [
        (b"Test", SIGNATURE),
        (b"test", SIGNATURE.replace(b"timestamp:1556193335", b"timestamp:1656193335")),
        (b"test", SIGNATURE.replace(b"i559r3g7V1q", b"i559r3g7V1r")),
        (b"test", SIGNATURE.replace(b"RUQf6LRC", b"RWQf6LRC")),  # the algorithm without a hash
        (b"test", SIGNATURE.replace(b"y/rUw2y8", b"y/rUw2y9")),
    ],
)
def test_a_changed_byte_is_noticed(content: bytes, signature: bytes) -> None:
    with pytest.raises(ModelError, match=r"^file: expected the content that was signed, found another$"):
        PublicKey.parse(KEY).verify(content, signature, "file")


@pytest.mark.parametrize("signature", [b"", b"\xff\n\n\n\n", SIGNATURE[:100], SIGNATURE + b"more\n", b"a\nb\nc\nd"])
def test_another_format_is_refused(signature: bytes) -> None:
    with pytest.raises(ModelError, match="expected a signature in minisign's format"):
        PublicKey.parse(KEY).verify(b"test", signature, "file")


def test_a_signature_by_another_key_names_both() -> None:
    other = Signer(b"\1\2\3\4\5\6\7\x08")
    with pytest.raises(ModelError, match="by the key E7620F1842B4E81F, found one by 0807060504030201"):
        PublicKey.parse(KEY).verify(b"test", other.sign(b"test"), "file")


def test_a_signature_by_another_key_with_the_same_number_is_refused() -> None:
    with pytest.raises(ModelError, match="expected the content that was signed"):
        PublicKey.parse(Signer().public).verify(b"test", Signer().sign(b"test"), "file")


@pytest.mark.parametrize("text", ["", "RW", KEY[:-4], "Rg" + KEY[2:], "not base64!"])
def test_a_text_that_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(ModelError, match="expected a public key of minisign"):
        PublicKey.parse(text)
