"""Google's Gemini models."""

from __future__ import annotations

import warnings
from typing import Any

from serving.backends.backend import CallParameters
from serving.backends.hosted import HostedProvider, hosted
from serving.backends.reply_schemas import without_keywords


def _arguments(call: CallParameters) -> dict[str, Any]:
    arguments: dict[str, Any] = {"temperature": call.temperature, "max_output_tokens": call.max_tokens}
    if len(call.samples) > 1:
        arguments["candidate_count"] = len(call.samples)
    if call.seed is not None:
        arguments["seed"] = call.seed
    if call.schema is not None and call.constraint in ("json_schema", "json_object"):
        arguments["response_mime_type"] = "application/json"
    if call.schema is not None and call.constraint == "json_schema":
        arguments["response_json_schema"] = without_keywords(call.schema, ("uniqueItems",))
    return arguments


def _settings() -> dict[str, Any]:
    # langchain-core reads the response of a failure as if it were httpx's; Google's is aiohttp's.
    warnings.filterwarnings("ignore", "coroutine 'ClientResponse.json' was never awaited", RuntimeWarning)
    return {}


GOOGLE_GENAI = hosted(
    HostedProvider(
        name="google_genai",
        package="langchain-google-genai",
        key="GOOGLE_API_KEY",
        arguments=_arguments,
        # The API has log-probabilities, and LangChain's class drops them.
        constraints=("json_schema", "json_object", "none"),
        max_samples=8,
        takes_seed=True,
        settings=_settings,
    )
)
