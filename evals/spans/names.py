"""Names of attributes, in two vocabularies on the same spans.

OpenTelemetry's conventions for generative AI (`gen_ai.*`, of September 2026, still in development; their
Python constants are deprecated, as the conventions moved to a repository of their own) and OpenInference
(`openinference.*`, `llm.*`), which Phoenix reads. What neither knows begins with `evigraph.`.
"""

from __future__ import annotations

from collections.abc import Mapping

PROVIDERS: Mapping[str, str] = {"google_genai": "gcp.gen_ai"}
"""Our name of a provider to the conventions', where they differ."""

NODE_KINDS: Mapping[str, str] = {
    "retrieve_evidence_demonstrations": "RETRIEVER",
    "retrieve_answer_demonstrations": "RETRIEVER",
    "rank_evidence": "RERANKER",
    "check_answer": "EVALUATOR",
}
"""OpenInference's kind of a node; the others are a `CHAIN`."""

OPERATION = "gen_ai.operation.name"
AGENT_NAME = "gen_ai.agent.name"
AGENT_VERSION = "gen_ai.agent.version"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
ERROR_TYPE = "error.type"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"

KIND = "openinference.span.kind"
INPUT = "input.value"
OUTPUT = "output.value"
LLM_SYSTEM = "llm.system"
LLM_PROVIDER = "llm.provider"
LLM_MODEL = "llm.model_name"
LLM_INPUT_TOKENS = "llm.token_count.prompt"
LLM_OUTPUT_TOKENS = "llm.token_count.completion"
LLM_TOTAL_TOKENS = "llm.token_count.total"
LLM_CACHED_TOKENS = "llm.token_count.prompt_details.cache_read"
LLM_INPUT_MESSAGES = "llm.input_messages"
LLM_OUTPUT_MESSAGES = "llm.output_messages"
RETRIEVED = "retrieval.documents"
PROJECT = "openinference.project.name"
