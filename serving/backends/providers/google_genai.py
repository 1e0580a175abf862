"""Google: Gemini and Vertex AI."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from serving.backends.hosted import HostedProvider, hosted
from serving.backends.limited_httpx import client_settings
from serving.backends.reply_schemas import without_keywords
from serving.policy.gate import demand_route
from serving.protocol.abilities import Abilities
from serving.protocol.request import AnyRequest
from serving.protocol.thinking import EFFORTS, HEADROOM, Effort


def _google_efforts(name: str, levels: Sequence[str]) -> Mapping[Effort, str]:
    """Levels, or budgets in tokens for Gemini 2.5, whose Pro always thinks."""
    if not name.startswith("gemini-2.5"):
        words = levels or ("minimal", "low", "medium", "high")
        return {effort: effort for effort in EFFORTS if effort in words}
    least, most = (128, 32_768) if "pro" in name else (512, 24_576)
    budgets = {effort: str(min(max(HEADROOM[effort] // 2, least), most)) for effort in EFFORTS[1:]}
    return budgets if "pro" in name else {"off": "0", **budgets}


def _google_arguments(request: AnyRequest) -> dict[str, Any]:
    arguments: dict[str, Any] = {"max_output_tokens": request.max_tokens}
    if request.temperature is not None:
        arguments["temperature"] = request.temperature
    if request.effort is not None and request.effort_word.isdigit():
        arguments["thinking_budget"] = int(request.effort_word)
    elif request.effort is not None:
        arguments["thinking_level"] = request.effort_word
    if len(request.samples) > 1:
        arguments["candidate_count"] = len(request.samples)
    if request.seed is not None:
        arguments["seed"] = request.seed
    if request.schema is not None and request.constraint in ("json_schema", "json_object"):
        arguments["response_mime_type"] = "application/json"
    if request.schema is not None and request.constraint == "json_schema":
        arguments["response_json_schema"] = without_keywords(request.schema, ("uniqueItems",))
    return arguments


def _own_google_client(model: Any) -> Any:
    """Google's own client is aiohttp's, where that is installed, and takes replies of any size.

    Raises:
        PolicyError: Requests would go to a host that may see no text.
    """
    import httpx

    requests = model.client._api_client
    # What its variables and files have led to, which the gate has asked about as far as it knew them.
    demand_route(str(requests._http_options.base_url), "model of google_genai")
    client = httpx.AsyncClient(**client_settings(httpx.AsyncHTTPTransport))
    requests._http_options.httpx_async_client = requests._async_httpx_client = client
    return client


async def _describe_google(model: Any, name: str) -> Abilities:
    found = await model.client.aio.models.get(model=name)
    return Abilities(thinks=bool(found.thinking), max_output=found.output_token_limit)


def _vertex() -> str | None:
    """The address of Vertex AI where its variables choose that, as Google's client reads them."""
    chosen = os.environ.get("GOOGLE_GENAI_USE_ENTERPRISE") or os.environ.get("GOOGLE_GENAI_USE_VERTEXAI", "")
    if chosen.lower() not in ("true", "1", "yes"):
        return None
    place = os.environ.get("GOOGLE_CLOUD_LOCATION") or "global"
    host = "aiplatform.googleapis.com" if place == "global" else f"{place}-aiplatform.googleapis.com"
    return os.environ.get("GOOGLE_VERTEX_BASE_URL") or f"https://{host}"


FACTS = HostedProvider(
    name="google_genai",
    package="langchain-google-genai",
    key="GOOGLE_API_KEY",
    other_keys=("GEMINI_API_KEY",),
    arguments=_google_arguments,
    efforts=_google_efforts,
    # The API has log-probabilities, and LangChain's class drops them.
    constraints=("json_schema", "json_object", "none"),
    max_samples=8,
    takes_seed=True,
    # The class makes a client for requests without an event loop, too, which none are sent by.
    settings=lambda: {"client_args": {"follow_redirects": False}},
    own_client=_own_google_client,
    describe=_describe_google,
    service="https://generativelanguage.googleapis.com",
    service_variables=("GOOGLE_GEMINI_BASE_URL",),
    other_service=_vertex,
    batches="serving.batches.providers.google_genai:GoogleBatches",
    families=("gemini",),
    example="gemini-2.5-flash",
)
PROVIDER = hosted(FACTS)
