"""Votes with reflection on one case: plain transformers against the embedded engine.

Both sides run the same weights on an invented case under the same grammar. The plain side is a careful use of
`generate()`: one call for each vote, then one for each reflection with its whole conversation. Labels of a
135M model mean nothing; only the seconds count, and of them the ratio, because other work on the machine
moves both.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
import xgrammar
from transformers import AutoModelForCausalLM, LogitsProcessorList
from xgrammar.contrib.hf import LogitsProcessor

from evals.bench.benchmark import Part, Report, Result
from evals.bench.measuring import turns
from serving.embedded.chat_format import ChatFormat, ChatTurn, chat_format
from serving.embedded.engine import Engine
from serving.embedded.precision import Precision, precision_of
from serving.embedded.request import Reply, Request
from weights.loading import no_progress_bars
from weights.pull import resolve

_TEMPERATURE = 0.7
_MAX_NEW_TOKENS = 600
_LABELS = ("essential", "supplementary", "not-relevant")
_FINDINGS = (
    "The patient came in with a fever of 39.1 degrees and a wet cough that had lasted for nine days.",
    "A film of the chest showed a new shadow over the lower part of the right lung, with a little fluid.",
    "She was given ceftriaxone and azithromycin by vein, and the fever settled on the third day.",
    "Her daughter visits twice a week and helps with shopping, with the stairs at home and with her letters.",
    "Because the oxygen in her blood stayed below 90 percent she was kept on two litres through each night.",
    "The scan of the leg veins found no clot on either side, so the heparin was stopped on the same day.",
    "At home she goes on with the tablets for five days and sees the clinic with a new film in six weeks.",
)
_INSTRUCTIONS = (
    "You read a patient's question and the numbered sentences of a hospital note. Label each sentence: "
    "essential if the answer needs it, supplementary if it only helps, not-relevant otherwise. "
    "Reply with a JSON object from sentence numbers to labels."
)
_REFLECTION = (
    "Look at your labels once more. Change those that you would now choose differently, keep the rest, and "
    "reply with the whole JSON object."
)


@dataclass(frozen=True, slots=True)
class Options:
    """A registered model or a folder, sentences of the note, votes, repeats."""

    model: str = "smollm2-135m"
    sentences: int = 30
    votes: int = 3
    repeats: int = 1


TINY = {"sentences": 2, "votes": 1}


def conversation(sentences: int) -> list[ChatTurn]:
    """The labelling prompt of the invented case, about 1,000 tokens with 30 sentences."""
    note = "\n".join(f"{number}. {_FINDINGS[number % len(_FINDINGS)]}" for number in range(1, sentences + 1))
    question = "Why was I kept on oxygen, and do I still have to take the blood thinner?"
    return [
        {"role": "system", "content": _INSTRUCTIONS},
        {"role": "user", "content": f"Question: {question}\n\nNote:\n{note}"},
    ]


def schema(sentences: int) -> dict[str, Any]:
    """Exactly the sentences of the case."""
    numbers = [str(number) for number in range(1, sentences + 1)]
    return {
        "type": "object",
        "properties": {number: {"type": "string", "enum": list(_LABELS)} for number in numbers},
        "required": numbers,
        "additionalProperties": False,
    }


def time_plain(folder: Path, chat: ChatFormat, options: Options) -> tuple[float, int]:
    """Seconds with `generate()` of transformers, weights loaded and grammar compiled; tokens it wrote."""
    with no_progress_bars():
        # `Any`, because the declared self type of `generate` excludes the class that this returns.
        model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, local_files_only=True)
    tokenizer = chat.tokenizer
    info = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=model.config.vocab_size)
    compiled = xgrammar.GrammarCompiler(info).compile_json_schema(
        json.dumps(schema(options.sentences)), any_whitespace=False
    )

    written: list[int] = []

    def ask(turns: Sequence[ChatTurn], max_new_tokens: int = _MAX_NEW_TOKENS) -> str:
        prompt = torch.tensor([chat.encode(turns)])
        output = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=max_new_tokens,
            do_sample=True,
            temperature=_TEMPERATURE,
            top_k=0,
            logits_processor=LogitsProcessorList([LogitsProcessor(compiled)]),
        )
        written.append(output.shape[1] - prompt.shape[1])
        return cast(str, tokenizer.decode(output[0, prompt.shape[1] :], skip_special_tokens=True))

    ask([{"role": "user", "content": "warm up"}], max_new_tokens=4)
    written.clear()
    torch.manual_seed(0)
    start = time.perf_counter()
    votes = [ask(conversation(options.sentences)) for _ in range(options.votes)]
    for vote in votes:
        json.loads(ask(_reflection(vote, options.sentences)))
    return time.perf_counter() - start, sum(written)


def warm_engine(folder: Path, chat: ChatFormat, precision: Precision, sentences: int) -> Engine:
    """An engine that has answered once, with the grammar compiled."""
    engine = Engine(folder, chat.tokenizer, precision=precision)
    prompt = tuple(chat.encode([{"role": "user", "content": "warm up"}]))
    _replies(engine, [Request(prompt=prompt, max_new_tokens=4, schema=schema(sentences))])
    return engine


def time_engine(engine: Engine, chat: ChatFormat, options: Options) -> tuple[float, Reply, list[Reply]]:
    """Seconds with a warm engine, and its replies."""

    def ask(turns: Sequence[ChatTurn], samples: int) -> Request:
        return Request(
            prompt=tuple(chat.encode(turns)),
            samples=tuple(range(samples)),
            temperature=_TEMPERATURE,
            max_new_tokens=_MAX_NEW_TOKENS,
            schema=schema(options.sentences),
        )

    start = time.perf_counter()
    (votes,) = _replies(engine, [ask(conversation(options.sentences), options.votes)])
    reflections = _replies(
        engine, [ask(_reflection(vote.text, options.sentences), 1) for vote in votes.samples]
    )
    seconds = time.perf_counter() - start
    for reflection in reflections:
        json.loads(reflection.samples[0].text)
    return seconds, votes, reflections


def measure(options: Options, report: Report) -> Result:
    """Both sides in turn."""
    folder = resolve(options.model)
    chat = chat_format(folder)
    plain_seconds: list[float] = []
    engine_seconds: list[float] = []
    details: dict[str, Any] = {}
    for _, side in turns(("engine", "plain"), options.repeats, report):
        if side == "plain":
            seconds, details["plain_output_tokens"] = time_plain(folder, chat, options)
            plain_seconds.append(seconds)
        else:
            engine = warm_engine(folder, chat, precision_of(folder), options.sentences)
            seconds, votes, reflections = time_engine(engine, chat, options)
            engine_seconds.append(seconds)
            details |= _engine_details(votes, reflections)
    return Result(
        "embedded",
        Part("plain transformers", "s", tuple(plain_seconds)),
        Part("embedded engine", "s", tuple(engine_seconds)),
        details=details,
    )


def _engine_details(votes: Reply, reflections: Sequence[Reply]) -> dict[str, Any]:
    cached = sum(reply.cached_tokens for reply in reflections)
    return {
        "prompt_tokens": votes.input_tokens,
        "engine_output_tokens": votes.output_tokens + sum(reply.output_tokens for reply in reflections),
        "cached_share_of_reflections": round(cached / sum(reply.input_tokens for reply in reflections), 3),
    }


def _reflection(vote: str, sentences: int) -> list[ChatTurn]:
    return [
        *conversation(sentences),
        {"role": "assistant", "content": vote},
        {"role": "user", "content": _REFLECTION},
    ]


def _replies(engine: Engine, requests: Sequence[Request]) -> list[Reply]:
    replies: list[Reply] = []
    for outcome in engine.generate(requests):
        if isinstance(outcome, Exception):
            raise outcome
        replies.append(outcome)
    return replies
