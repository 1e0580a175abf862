"""DeepSeek's chat completions, after its API reference: OpenAI's protocol with thinking that is shown."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from tests.serving.batches.emulators.openai import BODY, OpenAIEmulator, completion, refused
from tests.serving.batches.emulators.thinking import ruminations, thought

MODEL = "deepseek-v4-pro"
_MAX_OUTPUT = 384_000


class DeepSeekEmulator(OpenAIEmulator):
    """Thinks unless it is told not to, and ignores the temperature then."""

    names = (MODEL,)

    async def _chat(self, request: web.Request) -> web.Response:
        self.account(request)
        body = await request.json()
        known = {name: value for name, value in body.items() if name not in ("thinking", "reasoning_effort")}
        if fault := BODY.fault(known):
            raise self.refuse(400, fault)
        thinks = (body.get("thinking") or {}).get("type") != "disabled"
        self._demand(body, thinks)
        self.billed_online(body)
        given = completion(body, lambda sample: thought(body, sample) if thinks else 0)
        for choice in given["choices"]:
            choice["message"]["reasoning_content"] = ruminations(choice.pop("thinking"))
        return web.json_response(given)

    def _demand(self, body: dict[str, Any], thinks: bool) -> None:
        if thinks and isinstance(body.get("tool_choice"), dict):
            raise self.refuse(400, "Thinking mode does not support this tool_choice")
        if thinks and body.get("logprobs"):
            raise self.refuse(400, "deepseek-reasoner does not support the parameter `logprobs`")
        if (body.get("response_format") or {}).get("type") == "json_schema":
            raise self.refuse(400, "This response_format type is unavailable now")
        if body.get("reasoning_effort") not in (None, "low", "high", "max"):
            raise refused(400, "Invalid value for 'reasoning_effort'", "reasoning_effort", "invalid_value")
        if (body.get("n") or 1) > 1:
            raise self.refuse(400, "Invalid n value (currently only n = 1 is supported)")
        if (body.get("max_tokens") or 1) > _MAX_OUTPUT:
            valid = f"the valid range of max_tokens is [1, {_MAX_OUTPUT}]"
            raise self.refuse(400, f"Invalid max_tokens value, {valid}")
