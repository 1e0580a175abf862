"""The embedded engine as a LangChain chat model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LangSmithParams
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field

from serving.embedded.chat_format import ChatFormat, ChatTurn, chat_format
from serving.embedded.request import Reply, Request, Sample
from serving.embedded.worker import Prepare, worker_for
from weights.registry import resolve

_ROLES = {"system": "system", "human": "user", "ai": "assistant"}


class EmbeddedChatModel(BaseChatModel):
    """A chat model whose weights run in this process.

    Several samples of one prompt, a JSON schema for the reply and a seed are call options:

        model = EmbeddedChatModel(model_path="smollm2-135m")
        result = await model.agenerate([messages], n=3, response_schema=schema, temperature=0.7)

    The small default model follows a schema and little else: it proves that the machinery works, with
    real inference and without a network, and says nothing about quality.

    Concurrent calls are decoded in one batch. The weights are loaded at the first call, by the thread that
    runs them, and shared by all chat models of the process that name the same folder.
    """

    model_path: str = "smollm2-135m"
    """A registered name, or the path of a model folder."""

    temperature: float = Field(default=0.0, ge=0)
    """0 picks the likeliest token."""

    top_p: float = Field(default=1.0, gt=0, le=1)
    """Share of the probability that is sampled from."""

    max_tokens: int = Field(default=1024, ge=1)
    """Limit of one reply."""

    seed: int = 0
    """Start of all randomness; the same call with the same seed gives the same replies."""

    stop: list[str] | None = None
    """Strings that end a reply."""

    @property
    def _llm_type(self) -> str:
        return "evigraph-embedded"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        settings = {"model_path": self.model_path, "temperature": self.temperature, "top_p": self.top_p}
        return settings | {"max_tokens": self.max_tokens, "seed": self.seed, "stop": self.stop}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        params = super()._get_ls_params(stop=stop, **kwargs)
        params["ls_provider"] = "embedded"
        # A trace names the model that the call asked for, even though this one serves its own only.
        params["ls_model_name"] = kwargs.get("model", self.model_path)
        return params

    @cached_property
    def folder(self) -> Path:
        """Where the weights lie.

        Raises:
            WeightsError: They are not there.
        """
        return resolve(self.model_path)

    @cached_property
    def context_length(self) -> int:
        """Tokens of prompt and reply together."""
        config = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))
        return int(config["max_position_embeddings"])

    def count_tokens(self, messages: Sequence[BaseMessage]) -> int:
        """Exact length of a conversation as the model gets it. The first call loads the tokenizer."""
        return len(chat_format(self.folder).encode(_turns(messages)))

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self._result(worker_for(self.folder).submit(self._prepare(messages, stop, **kwargs)).result())

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        future = worker_for(self.folder).submit(self._prepare(messages, stop, **kwargs))
        return self._result(await asyncio.wrap_future(future))

    def _prepare(
        self,
        messages: Sequence[BaseMessage],
        stop: Sequence[str] | None,
        *,
        n: int = 1,
        sample_indices: Sequence[int] | None = None,
        response_schema: Mapping[str, Any] | None = None,
        temperature: float | None = None,
        top_p: float | None = None,
        max_tokens: int | None = None,
        seed: int | None = None,
        **_: Any,
    ) -> Prepare:
        """Check the options now; the prompt is tokenised by the worker.

        Args:
            messages: The conversation.
            stop: Strings that end a reply.
            n: Number of replies.
            sample_indices: Instead of `n`: which samples, where only some of them are wanted again.
            response_schema: JSON schema that each reply has to follow.
            temperature: Instead of the model's own.
            top_p: Instead of the model's own.
            max_tokens: Instead of the model's own.
            seed: Instead of the model's own.
        """
        turns = _turns(messages)
        samples = tuple(range(n) if sample_indices is None else sample_indices)
        if not samples or len(set(samples)) < len(samples):
            raise ValueError(f"samples have to be different and at least one, not {samples}")

        def prepare(chat: ChatFormat) -> Request:
            return Request(
                prompt=tuple(chat.encode(turns)),
                samples=samples,
                temperature=self.temperature if temperature is None else temperature,
                top_p=self.top_p if top_p is None else top_p,
                max_new_tokens=self.max_tokens if max_tokens is None else max_tokens,
                schema=response_schema,
                stop=tuple(stop or self.stop or ()),
                seed=self.seed if seed is None else seed,
            )

        return prepare

    def _result(self, reply: Reply) -> ChatResult:
        generations = [
            # The prompt is computed once for all samples, so it is counted once.
            self._generation(sample, *((reply.input_tokens, reply.cached_tokens) if index == 0 else (0, 0)))
            for index, sample in enumerate(reply.samples)
        ]
        usage = {"input_tokens": reply.input_tokens, "output_tokens": reply.output_tokens}
        return ChatResult(
            generations=generations, llm_output={"model_name": self.model_path, "token_usage": usage}
        )

    def _generation(self, sample: Sample, input_tokens: int, cached_tokens: int) -> ChatGeneration:
        output_tokens = len(sample.tokens)
        message = AIMessage(
            content=sample.text,
            response_metadata={"model_name": self.model_path, "finish_reason": sample.finish_reason},
            usage_metadata=UsageMetadata(
                input_tokens=input_tokens,
                output_tokens=output_tokens,
                total_tokens=input_tokens + output_tokens,
                input_token_details=InputTokenDetails(cache_read=cached_tokens),
            ),
        )
        return ChatGeneration(message=message, generation_info={"finish_reason": sample.finish_reason})


def _turns(messages: Sequence[BaseMessage]) -> list[ChatTurn]:
    unknown = sorted({message.type for message in messages} - _ROLES.keys())
    if unknown:
        raise ValueError(f"messages of type {', '.join(unknown)} mean nothing to an embedded model")
    return [{"role": _ROLES[message.type], "content": str(message.text)} for message in messages]
