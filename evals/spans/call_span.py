"""A model call as a span: which model, where, how many tokens, how it went."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from evals.spans import names
from evals.spans.ids import span_id
from evals.spans.intervals import Interval
from evals.spans.payload import conversation_attributes
from evals.spans.span import Span, Value
from serving.journal import Journal
from serving.model_name import parse_model_name

_INVALID_REPLY = "invalid_output"


def call_span(
    call: dict[str, Any], *, node: Span, number: int, interval: Interval, journal: Journal | None
) -> Span:
    """The span of a call.

    Args:
        call: As the trace has it.
        node: The span of the node that asked.
        number: Of the call within its node, from 0.
        interval: When it was made.
        journal: Where its prompt and reply stand; None leaves both out, and what was wrong with the reply.
    """
    model = parse_model_name(call["model"])
    provider = names.PROVIDERS.get(model.provider, model.provider)
    attributes: dict[str, Value] = {
        names.OPERATION: "chat",
        names.PROVIDER: provider,
        names.REQUEST_MODEL: model.name,
        names.KIND: "LLM",
        names.LLM_SYSTEM: provider,
        names.LLM_PROVIDER: provider,
        names.LLM_MODEL: model.name,
        **_tokens(call),
        **_address(call.get("server", "")),
        "evigraph.role": call["role"],
        "evigraph.sample": call["sample"],
        "evigraph.retries": call["retries"],
        "evigraph.replayed": call["replayed"],
        "evigraph.call.key": call["key"],
        "evigraph.call.seconds": float(call["seconds"]),
    }
    fault = call.get("fault")
    if fault:
        attributes[names.ERROR_TYPE] = _INVALID_REPLY
    if journal is not None:
        attributes |= conversation_attributes(journal, call["key"])
    return Span(
        trace_id=node.trace_id,
        span_id=span_id(node.trace_id, node.span_id.hex(), number),
        parent_id=node.span_id,
        name=f"chat {model.name}",
        kind="client" if names.SERVER_ADDRESS in attributes else "internal",
        start_ns=interval[0],
        end_ns=interval[1],
        attributes=attributes,
        failed=bool(fault),
        message=fault if fault and journal is not None else "",
    )


def _tokens(call: dict[str, Any]) -> dict[str, Value]:
    """Usage under the names that viewers add up; that of a replayed call was counted when it was made."""
    read, written, cached = call["input_tokens"], call["output_tokens"], call["cached_tokens"]
    if call["replayed"]:
        return {"evigraph.replayed.input_tokens": read, "evigraph.replayed.output_tokens": written}
    return {
        names.INPUT_TOKENS: read,
        names.OUTPUT_TOKENS: written,
        names.CACHED_TOKENS: cached,
        names.LLM_INPUT_TOKENS: read,
        names.LLM_OUTPUT_TOKENS: written,
        names.LLM_TOTAL_TOKENS: read + written,
        names.LLM_CACHED_TOKENS: cached,
    }


def _address(server: str) -> dict[str, Value]:
    """Host and port of a server, without what else its address may hold; nothing for a model in process."""
    parts = urlsplit(server)
    if parts.hostname is None:
        return {}
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return {names.SERVER_ADDRESS: parts.hostname, names.SERVER_PORT: port}
