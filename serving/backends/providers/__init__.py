"""The hosted providers: each is a file of this folder, whose `FACTS` are all that is known of it."""

from __future__ import annotations

import importlib

from serving.backends.hosted import HostedProvider
from serving.protocol.model_name import HOSTED


def facts_of(provider: str) -> HostedProvider:
    """Facts about a hosted provider."""
    facts = importlib.import_module(f"serving.backends.providers.{provider}").FACTS
    assert isinstance(facts, HostedProvider)
    return facts


def all_facts() -> list[HostedProvider]:
    """The same of every provider."""
    return [facts_of(provider) for provider in HOSTED]
