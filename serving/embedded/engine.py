"""Batched decoding of chat prompts in this process."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from serving.embedded.causal_model import CausalModel
from serving.embedded.grammar import Grammar, GrammarCompiler
from serving.embedded.int8 import writing
from serving.embedded.precision import Precision
from serving.embedded.prefix_cache import PrefixCache
from serving.embedded.request import (
    ContextLengthExceeded,
    GenerationStopped,
    InvalidChoices,
    InvalidSchema,
    Outcome,
    Reply,
    Request,
    Sample,
    Ticket,
)
from serving.embedded.row import Row

MAX_ROWS = 16
"""Samples decoded side by side."""

_PREFILL_CHUNK = 512
_SHORT_PROMPT = 128
_PREFIX_TOKENS = 40_000
_PREFIX_BYTES: dict[Precision, int] = {"bf16": 1 << 30, "int8": 192 << 20}
_GUESSES: dict[Precision, int] = {"bf16": 0, "int8": 3}
"""Guesses of one pass. Products of integers do not depend on their shape, as those of bf16 do. A pass of one
token takes 45 ms, of four 70, of five 120 and of eight 130: the kernel for 4 bits goes in steps of four."""

_ROWS_BYTES: dict[Precision, int] = {"bf16": 4 << 30, "int8": 256 << 20}
"""If weights are kept small, keys and values are too; few rows are enough for full speed in int8."""


@dataclass(slots=True, eq=False)
class _Job:
    """A ticket that the engine works on; `choices` are words by their first token's id."""

    ticket: Ticket
    grammar: Grammar | None
    limit: int
    waiting: deque[int]
    cached_tokens: int | None = None
    done: dict[int, Sample] = field(default_factory=dict)
    choices: Mapping[str, int] = field(default_factory=dict)

    @property
    def slots(self) -> int:
        """Tokens of a row at most."""
        return len(self.ticket.request.prompt) + self.limit


@dataclass(slots=True, eq=False)
class _Shared:
    """Common prefix of several choice requests, being prefilled into a row."""

    pending: list[int]
    length: int = 0
    guesses: Sequence[int] = ()


@dataclass(slots=True, eq=False)
class _Active:
    """A row of the batch. Its place in the engine's list is its row in the buffer."""

    job: _Job
    row: Row


class Engine:
    """Decodes the samples of many requests together. Not thread-safe: one thread calls it.

    Advantages over `generate()` of transformers for this project: the k votes of a case share one prefill; a
    follow-up turn prefills only new tokens; rows of different cases are decoded together and leave as they
    finish, while new requests join between two steps; and tokens forced by the reply's schema are fed in one
    piece instead of token by token. A row decoded alone in int8 also repeats the wording of its prompt in one
    piece. Requests for choices decode nothing: those whose prompts begin alike,
    such as the sentences of one note, share one prefill and are weighed in one pass.

    `evigraph bench embedded` compares it with llama.cpp.

    Where other processes keep both cores busy, torch's threads wait for each other at every small product:
    work of 7 s took 31 s, and 16 s if threads slept at once; in commands they sleep soon.
    """

    def __init__(
        self,
        folder: Path,
        tokenizer: PreTrainedTokenizerBase,
        *,
        precision: Precision = "bf16",
        dtype: torch.dtype = torch.bfloat16,
        max_rows: int = MAX_ROWS,
    ) -> None:
        """Load the weights.

        Raises:
            UnsupportedModel: The model has layers other than full attention.
            ModelError: The weights cannot be read in this precision.
        """
        self._model = CausalModel(folder, precision, dtype)
        self._tokenizer = tokenizer
        self._max_rows = max_rows
        self._grammars = GrammarCompiler(tokenizer, self._model.vocabulary, sorted(self._model.stop_tokens))
        self._rows_bytes = _ROWS_BYTES[precision]
        self._guesses = _GUESSES[precision]
        bound = min(_PREFIX_TOKENS, _PREFIX_BYTES[precision] // self._model.rows.bytes_per_token)
        self._prefixes = PrefixCache(bound)
        self._active: list[_Active] = []
        self._should_stop = threading.Event()

    @property
    def context_length(self) -> int:
        return self._model.context_length

    def generate(
        self, requests: Sequence[Request], should_stop: threading.Event | None = None
    ) -> list[Outcome]:
        """Answer requests together.

        Args:
            requests: Any number; they queue for the rows of the batch.
            should_stop: Looked at in every step.

        Returns:
            For each request its reply, or the exception that it alone met (`ContextLengthExceeded`,
            `InvalidSchema`, `InvalidChoices`).

        Raises:
            GenerationStopped: `should_stop` was set.
        """
        outcomes: dict[int, Outcome] = {}
        tickets = [
            Ticket(request, partial(outcomes.__setitem__, index)) for index, request in enumerate(requests)
        ]
        batches = iter([tickets])
        self.run(lambda: next(batches, []), should_stop or threading.Event())
        return [outcomes[index] for index in range(len(requests))]

    def run(self, feed: Callable[[], Sequence[Ticket]], should_stop: threading.Event) -> None:
        """Work until there is nothing left to do.

        Args:
            feed: Asked before every step for tickets that have come in meanwhile.
            should_stop: Looked at before every pass of the model.

        Raises:
            GenerationStopped: `should_stop` was set; open tickets stay unsettled.
        """
        waiting: deque[_Job] = deque()
        choosing: deque[_Job] = deque()
        self._should_stop = should_stop
        try:
            with torch.inference_mode():
                while True:
                    for job in [job for ticket in feed() if (job := self._open(ticket))]:
                        (choosing if job.choices else waiting).append(job)
                    self._drop_abandoned(waiting, choosing)
                    if choosing:
                        self._choose(choosing)
                    self._admit(waiting)
                    if self._active:
                        self._step()
                    elif not waiting and not choosing:
                        return
        finally:
            self._active.clear()

    def _open(self, ticket: Ticket) -> _Job | None:
        """Check a request. A fault becomes its outcome."""
        request = ticket.request
        room = self.context_length - len(request.prompt)
        try:
            if room < 1:
                raise ContextLengthExceeded(len(request.prompt), self.context_length)
            grammar = self._grammars.start(request.schema) if request.schema is not None else None
            choices = self._first_tokens(request.choices)
        except (ContextLengthExceeded, InvalidSchema, InvalidChoices) as error:
            ticket.settle(error)
            return None
        limit = min(request.max_new_tokens, room)
        return _Job(ticket, grammar, limit, deque(request.samples), choices=choices)

    def _first_tokens(self, choices: Sequence[str]) -> dict[str, int]:
        """Ids of the tokens that a reply with each choice begins with.

        Raises:
            InvalidChoices: Two choices begin alike.
        """
        first = {choice: self._tokenizer.encode(choice, add_special_tokens=False)[0] for choice in choices}
        if len(set(first.values())) < len(choices):
            raise InvalidChoices(f"the choices {', '.join(choices)} begin with the same token")
        return first

    def _drop_abandoned(self, *queues: deque[_Job]) -> None:
        for queue in queues:
            for job in [job for job in queue if job.ticket.dropped()]:
                queue.remove(job)
        self._remove([active for active in self._active if active.job.ticket.dropped()])

    def _choose(self, choosing: deque[_Job]) -> None:
        """Weigh the choices of the first request, and of all whose prompts begin as its own does.

        Their common prefix is prefilled once, in a row after those being decoded. A note takes only this
        row's memory, however many sentences it has.
        """
        first = choosing[0].ticket.request.prompt
        group: list[_Job] = []
        shared = len(first) - 1
        for job in choosing:
            prompt = job.ticket.request.prompt
            alike = min(_alike(first, prompt), len(prompt) - 1)
            if max(len(first), len(prompt)) - alike <= _SHORT_PROMPT or job is choosing[0]:
                group.append(job)
                shared = min(shared, alike)
        place = len(self._active)
        known = self._fill(place, first[:shared]) if shared else 0
        for job in group:
            choosing.remove(job)
            job.cached_tokens = known if job is group[0] else shared
        for batch in _batches(group, shared):
            if self._should_stop.is_set():
                raise GenerationStopped("stopped before the reply was complete")
            tokens = sorted({token for job in batch for token in job.choices.values()})
            chunks = [job.ticket.request.prompt[shared:] for job in batch]
            likely = self._model.weigh(place, shared, chunks, tokens)
            for job, row in zip(batch, likely.tolist(), strict=True):
                self._settle_choice(job, dict(zip(tokens, row, strict=True)))

    def _fill(self, place: int, tokens: Sequence[int]) -> int:
        """Bring tokens into a row and keep them; returns how many were at hand."""
        stretch = _Shared(list(tokens))
        self._model.rows.reserve(place + 1, len(tokens))
        self._load_prefix(place, stretch)
        known = stretch.length
        self._feed(place, [stretch])
        self._prefixes.add(tokens, lambda start, end: self._model.rows.read(place, start, end))
        return known

    def _settle_choice(self, job: _Job, likely: Mapping[int, float]) -> None:
        """The likeliest choice, for every sample: nothing is drawn."""
        shares = sorted(
            ((word, likely[token]) for word, token in job.choices.items()), key=lambda one: -one[1]
        )
        word = shares[0][0]
        sample = Sample(text=word, tokens=(job.choices[word],), finish_reason="stop", shares=tuple(shares))
        samples = tuple(sample for _ in job.ticket.request.samples)
        job.ticket.settle(
            Reply(
                samples=samples,
                input_tokens=len(job.ticket.request.prompt),
                output_tokens=len(samples),
                cached_tokens=job.cached_tokens or 0,
            )
        )

    def _admit(self, waiting: deque[_Job]) -> None:
        """Start as many samples as there are free rows.

        A long prompt is prefilled alone, and looked up only then, because the one before it may have left
        it a shared beginning. Short remainders, such as follow-up turns, are prefilled together.
        """
        while waiting and self._free_rows(waiting[0], []):
            group: list[list[_Active]] = []
            while waiting and (free := self._free_rows(waiting[0], group)):
                job = waiting[0]
                known = self._prefixes.match(job.ticket.request.prompt)
                is_long = len(job.ticket.request.prompt) - known > _SHORT_PROMPT
                if group and is_long:
                    break
                if job.cached_tokens is None:
                    job.cached_tokens = known
                taken = min(free, len(job.waiting))
                group.append([self._begin(job, job.waiting.popleft()) for _ in range(taken)])
                if not job.waiting:
                    waiting.popleft()
                if is_long:
                    break
            self._prefill(group)

    def _free_rows(self, job: _Job, group: Sequence[Sequence[_Active]]) -> int:
        """Rows that a job may take, none if the buffer would outgrow its bound; one is always granted."""
        taken = [*self._active, *(active for samples in group for active in samples)]
        longest = max([job.slots, *(active.job.slots for active in taken)])
        fitting = max(1, self._rows_bytes // (longest * self._model.rows.bytes_per_token))
        return max(0, min(self._max_rows, fitting) - len(taken))

    def _begin(self, job: _Job, sample: int) -> _Active:
        grammar = job.grammar.fork() if job.grammar is not None else None
        row = Row(job.ticket.request, sample, grammar, job.limit, self._model.stop_tokens, self._tokenizer)
        # Tokens forced at the start are the same for all samples: part of the prefill.
        row.pending = [*job.ticket.request.prompt, *row.output]
        return _Active(job, row)

    def _prefill(self, group: Sequence[Sequence[_Active]]) -> None:
        """Feed the prompts, one row for each request, then copy the row for its other samples."""
        leaders = [samples[0] for samples in group]
        first = len(self._active)
        slots = max(len(leader.row.pending) for leader in leaders)
        self._model.rows.reserve(first + sum(len(samples) for samples in group), slots)
        for place, leader in enumerate(leaders, start=first):
            self._load_prefix(place, leader.row)
        logits = self._feed(first, [leader.row for leader in leaders])
        self._active += leaders
        rows = [(leader, logits[index]) for index, leader in enumerate(leaders)]
        for place, samples in enumerate(group, start=first):
            self._keep_prefix(place, samples[0])
            length = samples[0].row.length
            for other in samples[1:]:
                self._model.rows.copy(place, len(self._active), length)
                other.row.length, other.row.pending = length, []
                self._active.append(other)
                rows.append((other, logits[place - first]))
        self._advance(rows)

    def _load_prefix(self, place: int, row: Row | _Shared) -> None:
        known = self._prefixes.match(row.pending)
        if known:
            self._model.rows.write(place, self._prefixes.load(row.pending, known))
        row.length, row.pending = known, row.pending[known:]

    def _step(self) -> None:
        rows = [active.row for active in self._active]
        if len(rows) == 1 and len(rows[0].pending) == 1:
            rows[0].guess(self._guesses)
        with writing():
            logits = self._feed(0, rows)
        self._advance(list(zip(self._active, logits, strict=True)))

    def _feed(self, first: int, rows: Sequence[Row | _Shared]) -> list[Tensor]:
        """Feed all that is pending, and guesses after it.

        Returns:
            Logits after the last pending token and after each guess, for each row.
        """
        # Only a single row is fed in pieces, as for a long prompt: the rows of a pass end together.
        longest = _PREFILL_CHUNK if len(rows) == 1 else max(len(row.pending) for row in rows)
        while True:
            # Long prompts can queue up for half a minute, so each pass looks, not each step.
            if self._should_stop.is_set():
                raise GenerationStopped("stopped before the reply was complete")
            chunks = [row.pending[:longest] for row in rows]
            guesses = [row.guesses for row in rows]
            logits = self._model.forward(first, [row.length for row in rows], chunks, guesses)
            for row, chunk in zip(rows, chunks, strict=True):
                row.length += len(chunk)
                row.pending = row.pending[len(chunk) :]
            if not any(row.pending for row in rows):
                return logits

    def _advance(self, rows: Sequence[tuple[_Active, Tensor]]) -> None:
        for active, logits in rows:
            if active.row.finish_reason is None:
                active.row.advance(logits)
        finished = [active for active, _ in rows if active.row.finish_reason is not None]
        for active in finished:
            self._keep_prefix(self._active.index(active), active)
            self._finish(active)
        self._remove(finished)

    def _finish(self, active: _Active) -> None:
        job, request = active.job, active.job.ticket.request
        job.done[active.row.sample] = active.row.result()
        if len(job.done) < len(request.samples):
            return
        samples = tuple(job.done[index] for index in request.samples)
        job.ticket.settle(
            Reply(
                samples=samples,
                input_tokens=len(request.prompt),
                output_tokens=sum(len(sample.tokens) for sample in samples),
                cached_tokens=job.cached_tokens or 0,
            )
        )

    def _keep_prefix(self, place: int, active: _Active) -> None:
        tokens = [*active.job.ticket.request.prompt, *active.row.output][: active.row.length]
        self._prefixes.add(tokens, lambda start, end: self._model.rows.read(place, start, end))

    def _remove(self, actives: Sequence[_Active]) -> None:
        """Close the gaps: the last row moves into each, so that the batch stays one block of the buffer."""
        for active in actives:
            place = self._active.index(active)
            last = self._active.pop()
            if last is not active:
                self._model.rows.copy(len(self._active), place, last.row.length)
                self._active[place] = last


def _alike(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two prompts begin with in common."""
    pairs = zip(one, other, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _batches(group: Sequence[_Job], shared: int) -> Iterator[list[_Job]]:
    """Requests whose own tokens fit one pass of bounded size."""
    batch: list[_Job] = []
    size = 0
    for job in group:
        own = len(job.ticket.request.prompt) - shared
        if batch and size + own > _PREFILL_CHUNK:
            yield batch
            batch, size = [], 0
        batch.append(job)
        size += own
    if batch:
        yield batch
