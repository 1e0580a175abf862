"""A backend without its model: replies are made up, tokens are counted, and nothing is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from serving.backends.backend import Backend, CallParameters
from serving.journal import Answer
from serving.messages import Message
from serving.token_counter import TokenCounter

Write = Callable[[CallParameters, int, Sequence[Message]], str]
"""Makes up the reply to one sample of a request."""


@dataclass(slots=True)
class Tally:
    """What a role would use, or one of its tasks. A call is one sample of one prompt.

    Attributes:
        requests: Several samples of a prompt can be one request, which reads the prompt once.
        estimated: Requests of which a count is an estimate.
    """

    calls: int = 0
    requests: int = 0
    estimated: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


Tallies = dict[tuple[str, str], Tally]
"""By role and by the name of the reply's format: a role can have several tasks."""


def added(parts: Iterable[Tally]) -> Tally:
    """The sum of tallies."""
    total = Tally()
    for part in parts:
        total.calls += part.calls
        total.requests += part.requests
        total.estimated += part.estimated
        total.input_tokens += part.input_tokens
        total.output_tokens += part.output_tokens
    return total


def rehearse(backend: Backend, write: Write, tallies: Tallies) -> Backend:
    """The same model with nobody behind it.

    Args:
        backend: Whose tokenizer counts, where it has one.
        write: What the model would say.
        tallies: Added to with each request.
    """
    counter = TokenCounter(backend.count_tokens)

    async def complete(messages: Sequence[Message], call: CallParameters) -> list[Answer]:
        texts = [write(call, sample, messages) for sample in call.samples]
        read = await counter.conversation(messages)
        written = [await counter.reply(text) for text in texts]
        answers = [
            Answer(
                text=text,
                finish_reason="stop",
                # As in a run, the prompt is counted once for all samples of a request.
                input_tokens=read.tokens if index == 0 else 0,
                output_tokens=min(count.tokens, call.max_tokens),
            )
            for index, (text, count) in enumerate(zip(texts, written, strict=True))
        ]
        tally = tallies.setdefault((call.role, call.schema_name), Tally())
        tally.calls += len(answers)
        tally.requests += 1
        tally.estimated += not all(count.exact for count in (read, *written))
        tally.input_tokens += read.tokens
        tally.output_tokens += sum(answer.output_tokens for answer in answers)
        return answers

    return replace(
        backend,
        servers=tuple(
            replace(server, complete=complete, is_up=None, reached=True) for server in backend.servers
        ),
        # The nodes measure some of the prompts too.
        count_tokens=counter.exactly if backend.count_tokens is not None else None,
    )
