"""The embedded model: real weights, in this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

from serving.backends.backend import Backend, Entry, Provider, Server, installed
from serving.embedded.chat_format import ChatFormat, ChatTurn, chat_format
from serving.embedded.precision import precision_of, revision_of
from serving.embedded.request import Request, Sample
from serving.embedded.worker import worker_for
from serving.protocol.errors import ModelError
from serving.protocol.messages import Answer, Message, TokenLogprob, thinking_share
from serving.protocol.model_name import ModelName
from serving.protocol.request import AnyRequest
from serving.protocol.thinking import split_thinking
from weights.gguf_file import unsupported_layers
from weights.pull import resolve
from weights.registry import REGISTRY, fingerprint, is_ready

MAX_CONNECTIONS = 8
"""Requests at once; the engine decodes them in one batch."""

MAX_CHOICES = 128
"""Requests for choices at once: all sentences of a note in one batch. They take no row of the batch."""

_EXTRA = "-e '.[embedded]' in the clone"


def connect_embedded(name: ModelName) -> Backend:
    """Find the weights of an embedded model.

    They are loaded at the first request, by the thread that runs them, and shared by all backends of the
    process that name the same folder. Concurrent requests are decoded in one batch.

    The small default model follows a schema and little else: it shows that the machinery works with real
    inference and without a network. It is not a measure of quality.

    Raises:
        ModelError: The extra is not installed, the engine cannot run the model, or EVIGRAPH_PRECISION asks
            for what cannot be had.
        WeightsError: The name is unknown, or the weights are not there.
    """
    if _state() != "ready":
        raise ModelError(f"model {str(name)!r} needs an extra: pip install {_EXTRA}")
    folder = resolve(name.name)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if reason := unsupported_layers(config):
        raise ModelError(
            f"{str(name)!r} cannot be run in this process, because {reason}: "
            "serve it with vLLM and pass `vllm:NAME@http://HOST:8000/v1`"
        )
    precision = precision_of(folder)

    async def complete(request: AnyRequest) -> list[Answer]:
        def prepare(chat: ChatFormat) -> Request:
            return Request(
                prompt=tuple(chat.encode(_turns(request.messages))),
                samples=request.samples,
                temperature=request.temperature or 0.0,
                max_new_tokens=request.max_tokens,
                schema=request.schema,
                seed=request.seed or 0,
                choices=request.choices,
            )

        reply = await asyncio.wrap_future(worker_for(folder, precision).submit(prepare))
        return [
            # The prompt is computed once for all samples, so it is counted once.
            _answer(sample, *((reply.input_tokens, reply.cached_tokens) if index == 0 else (0, 0)))
            for index, sample in enumerate(reply.samples)
        ]

    async def count_tokens(messages: Sequence[Message]) -> int:
        # The first call loads the tokenizer.
        return await asyncio.to_thread(lambda: len(chat_format(folder).encode(_turns(messages))))

    return Backend(
        name=name,
        servers=(Server(str(name), complete, in_process=True),),
        revision=revision_of(fingerprint(folder), precision),
        constraints=("grammar",),
        many_samples=True,
        takes_seed=True,
        start_connections=MAX_CONNECTIONS,
        max_connections=MAX_CONNECTIONS,
        scores_choices=True,
        choices_at_once=MAX_CHOICES,
        context_length=int(config["max_position_embeddings"]),
        count_tokens=count_tokens,
    )


def _answer(sample: Sample, read: int, cached: int) -> Answer:
    text, thinking = split_thinking(sample.text)
    return Answer(
        text=text,
        finish_reason=sample.finish_reason,
        input_tokens=read,
        output_tokens=len(sample.tokens),
        cached_tokens=cached,
        logprobs=(TokenLogprob(*sample.shares[0], sample.shares),) if sample.shares else (),
        thinking_tokens=thinking_share(len(sample.tokens), text, thinking),
        thinking=thinking,
    )


def _turns(messages: Sequence[Message]) -> list[ChatTurn]:
    return [{"role": message.role, "content": message.text} for message in messages]


def _state() -> str:
    return installed("torch", _EXTRA)


def _catalogue() -> list[Entry]:
    entries = []
    for name, model in REGISTRY.items():
        state = _state()
        if state == "ready" and not is_ready(name):
            state = f"not fetched: evigraph models pull {name}"
        described = f"in process, {model.megabytes:,} MB download, licence {model.licence}"
        entries.append(Entry(f"embedded:{name}", state, described))
    return [
        *entries,
        Entry(
            "embedded:/path/to/model", _state(), "a local folder of a decoder with full attention, in process"
        ),
        Entry("embedded:FILE.gguf", _state(), "the same in one file, converted once into the cache"),
    ]


EMBEDDED = Provider(connect_embedded, _catalogue)
