"""The spans of a run: a trace for each pass of a case, in the order of the run's trace.

Attributes have names of two vocabularies on the same spans: OpenTelemetry's conventions for generative AI
(`gen_ai.*`, of September 2026, still in development) and OpenInference (`openinference.*`, `llm.*`), which
Phoenix reads. Names that neither knows begin with `evigraph.`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from evals.spans.otlp import Attributes, Span, Value, run_id, span_id, trace_id
from graph.system import find_node
from nodes.verification.support import marked_text
from runs.record.folder import CALLS, Line, RunFolder
from runs.record.manifest import Manifest
from runs.record.without_text import because_without_text, error_type, facts_without_text
from serving.journal.journal import Journal
from serving.protocol.messages import Message
from serving.protocol.model_name import recorded_name

_INVALID_REPLY = "invalid_output"
_PROVIDERS: Mapping[str, str] = {"google_genai": "gcp.gen_ai"}
"""Our names of providers to those of the conventions, where they differ."""

Interval = tuple[int, int]
"""Begin and end, in nanoseconds since 1970."""


def resource(run: RunFolder) -> Attributes:
    """Attributes of all spans of a run. Phoenix makes a project of each run."""
    manifest = run.manifest
    name = run.path.resolve().name
    return {
        "service.name": "evigraph",
        "service.version": manifest.evigraph,
        "openinference.project.name": name,
        "evigraph.run": name,
        "evigraph.run.id": run_id(manifest),
        "evigraph.system": manifest.system,
        "evigraph.recipe_sha256": manifest.recipe_sha256,
    }


def traces(run: RunFolder, *, payloads: bool) -> Iterator[list[Span]]:
    """The spans of each pass of each case: the root, then each node with its calls. One pass is in memory.

    Raises:
        JournalError: Payloads are wanted and the journal cannot be read.
    """
    identity = run_id(run.manifest)
    numbers: Counter[str] = Counter()
    opened = closing(Journal(run.path / CALLS, read_only=True)) if payloads else nullcontext()
    with opened as journal:
        answered = (line for line in run.cases() if line.get("answer")) if payloads else ()
        answers = {line["case_id"]: marked_text(line) for line in answered}
        for case_id, lines in run.passes():
            *steps, end = lines
            one = _Pass(run.manifest, identity, case_id, numbers[case_id], steps, end)
            numbers[case_id] += 1
            answer = answers.get(case_id) if end["status"] == "done" else None
            yield one.spans(journal, answer)


@dataclass(frozen=True, slots=True)
class _Pass:
    manifest: Manifest
    run: str
    case_id: str
    number: int
    steps: list[Line]
    end: Line

    def spans(self, journal: Journal | None, answer: str | None) -> list[Span]:
        root = self._root(answer, payloads=journal is not None)
        spans = [root]
        for step in self.steps:
            node = node_span(step, root, payloads=journal is not None)
            calls = step["calls"]
            intervals = call_intervals(calls, (node.start_ns, node.end_ns))
            spans.append(node)
            for number, (call, interval) in enumerate(zip(calls, intervals, strict=True)):
                spans.append(call_span(call, node=node, number=number, interval=interval, journal=journal))
        return spans

    def _root(self, answer: str | None, *, payloads: bool) -> Span:
        trace = trace_id(self.run, self.case_id, self.number, self.end["started_at"])
        started_at = self.end["started_at"]
        if started_at is None:
            # A case that could not be read never began: its span begins with the run.
            started_at = datetime.fromisoformat(self.manifest.sessions[0].started).timestamp()
        start = nanoseconds(started_at)
        attributes: dict[str, Value] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": self.manifest.system,
            "gen_ai.agent.version": self.manifest.evigraph,
            "openinference.span.kind": "AGENT",
            "input.value": self.case_id,
            "evigraph.case_id": self.case_id,
            "evigraph.pass": self.number,
            "evigraph.status": self.end["status"],
            "evigraph.flags": sorted({flag for step in self.steps for flag in step["flags"]}),
            "evigraph.route": [step["node"] for step in self.steps],
        }
        error = self.end["error"]
        if error:
            attributes["error.type"] = error["class"]
        if answer:
            attributes["output.value"] = answer
        return Span(
            trace_id=trace,
            span_id=span_id(trace, "root"),
            parent_id=None,
            name=f"invoke_agent {self.manifest.system}",
            kind="internal",
            start_ns=start,
            end_ns=start + nanoseconds(self.end["seconds"]),
            attributes=attributes,
            failed=bool(error),
            message=error["message"] if error and payloads else "",
        )


def node_span(step: Line, root: Span, *, payloads: bool) -> Span:
    """A node execution as a span: its decision, reasons, and next node."""
    facts = step["facts"] if payloads else facts_without_text(step)
    because = step.get("because") if payloads else because_without_text(step)
    node = find_node(step["node"])
    kind = node.kind if node is not None else "CHAIN"
    attributes: dict[str, Value] = {
        "openinference.span.kind": kind,
        "evigraph.step": step["step"],
        "evigraph.reads": list(step["reads"]),
        "evigraph.next": list(step["next"]),
        "evigraph.flags": list(step["flags"]),
        **{f"evigraph.facts.{name}": _value(value) for name, value in facts.items() if value is not None},
    }
    if because:
        attributes["evigraph.because"] = attributes["output.value"] = because
    if kind == "RETRIEVER":
        attributes |= _retrieved(facts)
    error = step.get("error")
    if error:
        attributes["error.type"] = error_type(step)
    start = root.start_ns + nanoseconds(step["started"])
    return Span(
        trace_id=root.trace_id,
        span_id=span_id(root.trace_id, step["step"]),
        parent_id=root.span_id,
        name=step["node"],
        kind="internal",
        start_ns=start,
        end_ns=start + nanoseconds(step["seconds"]),
        attributes=attributes,
        failed=bool(error),
        message=str(error) if error and payloads else "",
    )


def _value(value: object) -> Value:
    """A fact as an attribute: lists of strings as they are, other containers as JSON."""
    if isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _retrieved(facts: Mapping[str, object]) -> dict[str, Value]:
    """Demonstrations as OpenInference's documents; the score is the cosine similarity."""
    chosen = facts.get("chosen")
    found: dict[str, Value] = {}
    for number, shown in enumerate(chosen if isinstance(chosen, list) else ()):
        found[f"retrieval.documents.{number}.document.id"] = shown["case_id"]
        found[f"retrieval.documents.{number}.document.score"] = round(1.0 - shown["distance"], 6)
    return found


def call_span(
    call: dict[str, Any], *, node: Span, number: int, interval: Interval, journal: Journal | None
) -> Span:
    """A model call as a span: which model, where, how many tokens, how it went."""
    model = recorded_name(call["model"])
    provider = _PROVIDERS.get(model.provider, model.provider)
    attributes: dict[str, Value] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": model.name,
        "openinference.span.kind": "LLM",
        "llm.system": provider,
        "llm.provider": provider,
        "llm.model_name": model.name,
        **_tokens(call),
        **_address(call["server"]),
        "evigraph.role": call["role"],
        "evigraph.sample": call["sample"],
        "evigraph.retries": call["retries"],
        "evigraph.replayed": call["replayed"],
        "evigraph.call.key": call["key"],
        "evigraph.call.seconds": float(call["seconds"]),
    }
    fault = call.get("fault")
    if fault:
        attributes["error.type"] = _INVALID_REPLY
    if journal is not None:
        attributes |= conversation_attributes(journal, call["key"])
    return Span(
        trace_id=node.trace_id,
        span_id=span_id(node.trace_id, node.span_id.hex(), number),
        parent_id=node.span_id,
        name=f"chat {model.name}",
        kind="client" if "server.address" in attributes else "internal",
        start_ns=interval[0],
        end_ns=interval[1],
        attributes=attributes,
        failed=bool(fault),
        message=fault if fault and journal is not None else "",
    )


def _tokens(call: dict[str, Any]) -> dict[str, Value]:
    """Usage under the names that viewers sum; a replayed call was counted when it was first made."""
    read, written, cached = call["input_tokens"], call["output_tokens"], call["cached_tokens"]
    if call["replayed"]:
        return {"evigraph.replayed.input_tokens": read, "evigraph.replayed.output_tokens": written}
    thought = call.get("thinking_tokens", 0)
    thinking: dict[str, Value] = {}
    if thought:
        thinking = {
            "gen_ai.usage.reasoning.output_tokens": thought,
            "llm.token_count.completion_details.reasoning": thought,
        }
    if call.get("effort"):
        thinking["gen_ai.request.reasoning.level"] = call["effort"]
    return thinking | {
        "gen_ai.usage.input_tokens": read,
        "gen_ai.usage.output_tokens": written,
        "gen_ai.usage.cache_read.input_tokens": cached,
        "llm.token_count.prompt": read,
        "llm.token_count.completion": written,
        "llm.token_count.total": read + written,
        "llm.token_count.prompt_details.cache_read": cached,
    }


def _address(server: str) -> dict[str, Value]:
    """Only host and port of a server; empty for a model in this process."""
    parts = urlsplit(server)
    if parts.hostname is None:
        return {}
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return {"server.address": parts.hostname, "server.port": port}


def conversation_attributes(journal: Journal, key: str) -> dict[str, Value]:
    """Prompt and reply of a call in both vocabularies; nothing if the journal no longer has it.

    A retry deletes replies that could not be parsed, and the trace of the earlier pass still names them.
    """
    try:
        *prompt, reply = journal.conversation(key)
        finish_reason = journal.finish_reason(key)
    except KeyError:
        return {}
    sent = [_turn(message) for message in prompt]
    received = [{**_turn(reply), "finish_reason": finish_reason}]
    return {
        "gen_ai.input.messages": json.dumps(sent, ensure_ascii=False),
        "gen_ai.output.messages": json.dumps(received, ensure_ascii=False),
        **_flattened("llm.input_messages", prompt),
        **_flattened("llm.output_messages", [reply]),
        "output.value": reply.text,
    }


def _turn(message: Message) -> dict[str, Any]:
    return {"role": message.role, "parts": [{"type": "text", "content": message.text}]}


def _flattened(name: str, messages: Sequence[Message]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for number, message in enumerate(messages):
        found[f"{name}.{number}.message.role"] = message.role
        found[f"{name}.{number}.message.content"] = message.text
    return found


def nanoseconds(seconds: float) -> int:
    """Seconds as nanoseconds, in whole microseconds: a time since 1970 as a float is not more exact."""
    return round(seconds * 1e6) * 1000


def call_intervals(calls: Sequence[dict[str, Any]], node: Interval) -> list[Interval]:
    """Place each call within its node's interval: a trace knows how long it took, but not when it began.

    Calls of one sample follow each other, as a correction follows the reply that it corrects, and the last
    of them ends with the node. Calls of different samples run side by side. A replayed call takes no time.
    None begins before its node.
    """
    begin, end = node
    ends = {_conversation(call): end for call in calls}
    placed: list[Interval] = []
    for call in reversed(calls):
        until = ends[_conversation(call)]
        length = 0 if call.get("replayed") else nanoseconds(call["seconds"])
        start = max(begin, until - length)
        ends[_conversation(call)] = start
        placed.append((start, until))
    return placed[::-1]


def _conversation(call: dict[str, Any]) -> tuple[str, int]:
    return call["role"], call["sample"]
