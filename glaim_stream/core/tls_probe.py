"""A handshake that finds out why TLS to a server fails: the clients' own errors often hide the reason."""

from __future__ import annotations

import socket
import ssl

PATIENCE_S = 3.0
# After its handshake in TLS 1.3 a client does not know yet whether the server accepts its certificate.
_LAST_WORD_S = 0.5

_CLOSED = "it closes the connection during the handshake, as a server without TLS does"
_REFUSALS = (
    ("CERTIFICATE_REQUIRED", "it requires a client certificate"),
    ("HANDSHAKE_FAILURE", "it requires a client certificate, or other ciphers"),
    ("CERTIFICATE_EXPIRED", "it refuses the client certificate as expired"),
    ("UNKNOWN_CA", "it refuses the client certificate: its authority is unknown there"),
    ("ALERT_", "it refuses the client certificate, or requires one"),
    ("WRONG_VERSION_NUMBER", "it does not use TLS"),
    ("RECORD_LAYER_FAILURE", "it does not use TLS"),
)


def tls_problem(host: str, port: int, context: ssl.SSLContext, *, patience_s: float = PATIENCE_S) -> str | None:
    """Shake hands with a server; return why that fails, None where it succeeds or the server is not reached."""
    try:
        plain = socket.create_connection((host, port), timeout=patience_s)
    except OSError:
        return None
    shaken = False
    with plain:
        try:
            with context.wrap_socket(plain, server_hostname=host) as connection:
                shaken = True
                connection.settimeout(_LAST_WORD_S)
                connection.recv(1)
        except ssl.SSLCertVerificationError as error:
            return _about_its_certificate(error)
        except ssl.SSLEOFError:
            return _CLOSED
        except ssl.SSLError as error:
            found = str(error.reason or error)
            return next((sentence for part, sentence in _REFUSALS if part in found), f"TLS fails: {error}")
        except ConnectionError:  # a server that closes at once may do so before it was sent anything
            return None if shaken else _CLOSED
        except OSError:  # it said nothing
            return None
    return None


def speaks_tls(host: str, port: int, *, patience_s: float = PATIENCE_S) -> bool:
    """Whether a server answers a TLS handshake, for a client that is set to use none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is sent over this connection
    try:
        with socket.create_connection((host, port), timeout=patience_s) as plain, context.wrap_socket(plain):
            return True
    except OSError:
        return False


def _about_its_certificate(error: ssl.SSLCertVerificationError) -> str:
    message = error.verify_message
    if "expired" in message:
        return "its certificate has expired"
    if "mismatch" in message:
        return f"its certificate is for other names: {message}"
    return f"its certificate is not trusted: {message}"
