"""vLLM's OpenAI-compatible server with a model that thinks, with and without a reasoning parser."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from tests.serving.batches.emulators.openai import BODY, OpenAIEmulator, completion
from tests.serving.batches.emulators.replies import digest, text_of, words
from tests.serving.batches.emulators.thinking import ruminations, thought

MODEL = "thinker"
_CONTEXT = 131_072
_OWN_FIELDS = ("structured_outputs", "chat_template_kwargs", "include_reasoning", "reasoning_effort")


class VllmEmulator(OpenAIEmulator):
    """Its limit covers thinking, and grammars wait for the end of it.

    Attributes:
        parser: Whether thinking comes in its own field. Else it is part of the text, and a grammar binds the
            first token, so that there is none.
        opens: Whether the model writes `<think>` itself; else its chat template does.
    """

    names = (MODEL,)
    parser = True
    opens = True

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/v1/models", self._models),
            web.get("/health", self._health),
            web.post("/tokenize", self._tokenize),
            web.post("/v1/chat/completions", self._chat),
        ]

    def key(self, request: web.Request) -> str:
        return super().key(request) or "EMPTY"

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _tokenize(self, request: web.Request) -> web.Response:
        body = await request.json()
        tokens = [word for one in body["messages"] for word in text_of(one["content"]).split()]
        if not self.opens:
            tokens.append("<think>")
        shown = {"token_strs": tokens} if body.get("return_token_strs") else {}
        return web.json_response({"count": len(tokens), **shown})

    async def _models(self, _: web.Request) -> web.Response:
        data = [{"id": name, "owned_by": "vllm", "max_model_len": _CONTEXT} for name in self.names]
        return web.json_response({"object": "list", "data": data})

    async def _chat(self, request: web.Request) -> web.Response:
        body = await request.json()
        if "thinking_token_budget" in body:
            raise self.refuse(400, "thinking_token_budget is set but reasoning_config is not configured.")
        if fault := BODY.fault({name: value for name, value in body.items() if name not in _OWN_FIELDS}):
            raise self.refuse(400, fault)
        read = words(*(text_of(one["content"]) for one in body["messages"]))
        limit = body.get("max_completion_tokens") or body.get("max_tokens") or _CONTEXT - read
        if read + limit > _CONTEXT:
            message = (
                f"'max_tokens' or 'max_completion_tokens' is too large: {limit}. This model's maximum context"
                f" length is {_CONTEXT} tokens and your request has {read} input tokens."
            )
            raise self.refuse(400, message)
        self.billed_online(body)
        given = completion(body, lambda sample: self._thought(body, sample))
        for choice in given["choices"]:
            self._show(choice, body)
        if not self.parser:
            # Only the parser tells it from the reply.
            del given["usage"]["completion_tokens_details"]
        return web.json_response(given)

    def _thought(self, body: dict[str, Any], sample: int) -> int:
        switched_off = (body.get("chat_template_kwargs") or {}).get("enable_thinking") is False
        bound = "structured_outputs" in body or "response_format" in body
        if switched_off or body.get("reasoning_effort") == "none" or (bound and not self.parser):
            return 0
        return thought(body, sample)

    def _show(self, choice: dict[str, Any], body: dict[str, Any]) -> None:
        message = choice["message"]
        thinking = ruminations(choice.pop("thinking"))
        if self.parser:
            message["reasoning"] = thinking or None
            message["content"] = message["content"] or None
        elif thinking:
            before = "<think>" if self.opens else ""
            closed = "" if choice["finish_reason"] == "length" and not message["content"] else "</think>\n"
            message["content"] = f"{before}{thinking}{closed}{message['content']}"
        choice["id"] = digest([body, choice["index"]])[:8]
