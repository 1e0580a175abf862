"""Pick the backend for a model name; heavy libraries are imported only for the one that is asked for."""

from __future__ import annotations

from serving.backends.backend import Backend
from serving.errors import ModelError
from serving.model_name import ModelName

_OWN_PROTOCOL = ("anthropic", "google_genai")
"""Providers whose protocol is not OpenAI's, at an address of the user's too."""


def connect(name: ModelName) -> Backend:
    """Make a model ready: find weights, reach the server, load the script.

    Raises:
        ModelError: It cannot be used; the message says which and what to do.
    """
    if name.provider == "embedded":
        from serving.backends.embedded import connect_embedded

        return connect_embedded(name)
    if name.provider == "vllm-offline":
        from serving.backends.vllm_offline import connect_vllm_offline

        return connect_vllm_offline(name)
    if name.provider == "scripted":
        from serving.backends.scripted import connect_scripted

        return connect_scripted(name)
    if name.base_url is not None and name.provider not in _OWN_PROTOCOL:
        from serving.backends.openai_compatible import connect_server

        return connect_server(name)
    if name.needs_server:
        raise ModelError(f"model {str(name)!r} names no server: write {name}@http://HOST:8000/v1")
    from serving.backends.hosted import connect_hosted

    return connect_hosted(name)
