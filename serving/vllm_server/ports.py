"""Ports on this machine."""

from __future__ import annotations

import socket

from serving.errors import ModelError

LOOPBACK = "127.0.0.1"


def free_port() -> int:
    """A port on loopback that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def require_free(host: str, port: int) -> None:
    """Refuse a port that is taken: vLLM would find out only after it has loaded the weights.

    Raises:
        ModelError: Somebody listens there, or the address is not one of this machine.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            # As the server does: connections of an earlier one that have not timed out are no hindrance.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ModelError(f"cannot listen on {host}:{port}: {reason}; choose another --port") from None
