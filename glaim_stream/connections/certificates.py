"""Expiry times of the certificates in a PEM file.

Python's ssl module reads the fields of a peer's certificate, but not those of one's own. The few fields before the
validity period are skipped here (RFC 5280, section 4.1).
"""

from __future__ import annotations

import re
import ssl
from datetime import UTC, datetime

_BLOCK = re.compile(r"-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----.+?-----END [^-]*CERTIFICATE-----", re.DOTALL)
_SEQUENCE, _VERSION, _UTC_TIME, _GENERALIZED_TIME = 0x30, 0xA0, 0x17, 0x18


class BadCertificate(Exception):
    """A PEM file without a readable certificate."""


def expiry_times_s(pem: bytes) -> list[float]:
    """Return the end of the validity of each certificate of a PEM file, seconds since the epoch, in their order.

    Raises:
        BadCertificate: there is none, or one cannot be read.
    """
    blocks = _BLOCK.findall(pem.decode("latin-1"))
    if not blocks:
        raise BadCertificate("no certificate in PEM")
    return [_expires_s(_der(block)) for block in blocks]


def _der(block: str) -> bytes:
    body = re.sub(r"-----[^-]+-----", "", block)
    try:
        return ssl.PEM_cert_to_DER_cert(f"{ssl.PEM_HEADER}{body}{ssl.PEM_FOOTER}")
    except ValueError as error:
        raise BadCertificate(f"a certificate in PEM that cannot be read: {error}") from error


def _expires_s(der: bytes) -> float:
    try:
        _, certificate, _ = _element(der)
        _, fields, _ = _element(certificate)
        tag, _, rest = _element(fields)
        skipped = 4 if tag == _VERSION else 3  # version if it is given, serial number, signature algorithm, issuer
        rest = fields
        for _ in range(skipped):
            _, _, rest = _element(rest)
        tag, validity, _ = _element(rest)
        if tag != _SEQUENCE:
            raise ValueError(f"tag {tag:#x} instead of the validity period")
        _, _, rest = _element(validity)  # the beginning
        tag, text, _ = _element(rest)
        return _time_s(tag, text.decode("ascii"))
    except (ValueError, IndexError) as error:
        raise BadCertificate(f"a certificate that cannot be read: {error}") from error


def _element(data: bytes) -> tuple[int, bytes, bytes]:
    """Return the tag and the content of the first DER element, and what follows it."""
    tag, size, start = data[0], data[1], 2
    if size & 0x80:
        start += size & 0x7F
        size = int.from_bytes(data[2:start])
    if start + size > len(data):
        raise ValueError("it is cut off")
    return tag, data[start : start + size], data[start + size :]


def _time_s(tag: int, text: str) -> float:
    if tag == _UTC_TIME:  # two digits of the year: from 50 on they are of the 20th century
        text = ("19" if int(text[:2]) >= 50 else "20") + text
    elif tag != _GENERALIZED_TIME:
        raise ValueError(f"tag {tag:#x} instead of a time")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()
