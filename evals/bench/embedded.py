"""The embedded engine against llama.cpp on the same weights, prompts and cores.

Each side loads the model in a new process, in turn, and is given the same tokens. llama.cpp comes with the
package `xllamacpp`, which only this benchmark uses: pip install xllamacpp.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Protocol

from evals.bench.benchmark import BenchError, Part, Report, Result
from evals.bench.measuring import peak_mb, run_child, scratch_folder, turns
from weights.loading import stay_offline
from weights.pull import resolve

if TYPE_CHECKING:
    from serving.embedded.request import Reply, Request

SIDES = ("engine", "llama.cpp")

_FINDINGS = (
    "The patient came in with a fever of 39.1 degrees and a wet cough that had lasted for nine days.",
    "A film of the chest showed a new shadow over the lower part of the right lung, with a little fluid.",
    "She was given ceftriaxone and azithromycin by vein, and the fever settled on the third day.",
    "Her daughter visits twice a week and helps with shopping, with the stairs at home and with her letters.",
    "Because the oxygen in her blood stayed below 90 percent she was kept on two litres through each night.",
    "The scan of the leg veins found no clot on either side, so the heparin was stopped on the same day.",
    "At home she takes the tablets for five more days and sees the clinic with a new film in six weeks.",
)
_STORY = "Write a long story about a small boat and the sea."
_REPEAT = "Repeat the first sentences of this note word for word.\n\n"
_QUESTION = "Does the answer to the patient's question need this sentence? Reply with Yes or No."
_CHOICES = ("Yes", "No")

MEASURES: Mapping[str, str] = {
    "loading": "s",
    "reading": "tokens/s",
    "writing": "tokens/s",
    "repeating": "tokens/s",
    "questions": "s",
    "peak_memory": "MB",
}
"""What is measured of both sides, with its unit."""

_LESS_IS_BETTER = frozenset({"loading", "questions", "peak_memory"})


@dataclass(frozen=True, slots=True)
class Options:
    """The model's GGUF file, sentences of the note, questions on it, tokens to write, repeats."""

    model: str
    sentences: int = 30
    questions: int = 20
    tokens: int = 64
    repeats: int = 3


TINY = {"sentences": 2, "questions": 2, "tokens": 4, "repeats": 1}


class Side(Protocol):
    """A loaded model."""

    def write(self, prompt: Sequence[int], tokens: int) -> int:
        """Write greedily after a prompt; returns how many tokens, at most as many as asked for."""

    def choose(self, prompts: Sequence[Sequence[int]]) -> None:
        """Weigh Yes and No after each prompt."""


class EngineSide:
    """The embedded engine."""

    def __init__(self, folder: Path) -> None:
        from serving.embedded.chat_format import chat_format
        from serving.embedded.engine import Engine
        from serving.embedded.precision import precision_of

        self._engine = Engine(folder, chat_format(folder).tokenizer, precision=precision_of(folder))

    def write(self, prompt: Sequence[int], tokens: int) -> int:
        from serving.embedded.request import Request

        (reply,) = self._replies([Request(prompt=tuple(prompt), max_new_tokens=tokens)])
        return reply.output_tokens

    def choose(self, prompts: Sequence[Sequence[int]]) -> None:
        from serving.embedded.request import Request

        self._replies(
            [Request(prompt=tuple(prompt), max_new_tokens=1, choices=_CHOICES) for prompt in prompts]
        )

    def _replies(self, requests: Sequence[Request]) -> list[Reply]:
        replies: list[Reply] = []
        for outcome in self._engine.generate(requests):
            if isinstance(outcome, Exception):
                raise outcome
            replies.append(outcome)
        return replies


class LlamaSide:
    """llama.cpp with its own threads and its cache of the last prompt."""

    def __init__(self, file: Path, threads: int, context: int) -> None:
        xllamacpp = importlib.import_module("xllamacpp")
        settings = xllamacpp.CommonParams()
        settings.model.path = str(file)
        settings.n_ctx = context
        settings.n_parallel = 1
        settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = threads
        settings.verbosity = 0
        self._server = xllamacpp.Server(settings)

    def write(self, prompt: Sequence[int], tokens: int) -> int:
        return self._complete(prompt, max_tokens=tokens)

    def choose(self, prompts: Sequence[Sequence[int]]) -> None:
        for prompt in prompts:
            self._complete(prompt, max_tokens=1, logprobs=len(_CHOICES))

    def _complete(self, prompt: Sequence[int], **options: int) -> int:
        asked = {"prompt": list(prompt), "temperature": 0, "cache_prompt": True, **options}
        reply: dict[str, Any] = self._server.handle_completions(asked)
        if "usage" not in reply:
            raise BenchError(f"llama.cpp did not complete a prompt: {json.dumps(reply)[:200]}")
        return int(reply["usage"]["completion_tokens"])


@dataclass(frozen=True, slots=True)
class Task:
    """What both sides do: token ids of prompts, and how many tokens to write."""

    story: Sequence[int]
    note: Sequence[int]
    repeat: Sequence[int]
    questions: Sequence[Sequence[int]]
    tokens: int

    @property
    def context(self) -> int:
        """Length of the longest prompt with its reply."""
        return max(map(len, (self.story, self.note, self.repeat, *self.questions))) + self.tokens


def task(folder: Path, options: Options) -> Task:
    """Prompts on an invented note."""
    from serving.embedded.chat_format import chat_format

    def encode(text: str) -> list[int]:
        return chat_format(folder).encode([{"role": "user", "content": text}])

    sentences = [f"{1 + n}. {_FINDINGS[n % len(_FINDINGS)]}" for n in range(options.sentences)]
    note = "\n".join(sentences)
    asked = [sentences[n % len(sentences)] for n in range(options.questions)]
    return Task(
        story=encode(_STORY),
        note=encode(f"What happened to this patient?\n\n{note}"),
        repeat=encode(_REPEAT + note),
        questions=[encode(f"{note}\n\n{_QUESTION}\n\n{sentence}") for sentence in asked],
        tokens=options.tokens,
    )


def measured(load: Callable[[], Side], given: Task) -> dict[str, float]:
    """Everything but the memory of one side, in this process."""
    begin = time.perf_counter()
    side = load()
    found = {"loading": time.perf_counter() - begin}
    side.write(given.story, 2)
    begin = time.perf_counter()
    side.write(given.note, 1)
    found["reading"] = len(given.note) / (time.perf_counter() - begin)
    for name, prompt in (("writing", given.story), ("repeating", given.repeat)):
        # Both sides keep the prompt, so that reading takes no time of the second request.
        side.write(prompt, 1)
        begin = time.perf_counter()
        written = side.write(prompt, given.tokens)
        found[name] = written / (time.perf_counter() - begin)
    begin = time.perf_counter()
    side.choose(given.questions)
    found["questions"] = time.perf_counter() - begin
    return found


def measure(options: Options, report: Report) -> Result:
    """Both sides in turn.

    Raises:
        BenchError: llama.cpp is not installed, or the model is not a GGUF file.
    """
    if importlib.util.find_spec("xllamacpp") is None:
        raise BenchError("embedded compares with llama.cpp, which is not installed: pip install xllamacpp")
    file = Path(options.model.removeprefix("embedded:")).expanduser()
    if file.suffix != ".gguf" or not file.is_file():
        raise BenchError(
            f"{options.model!r} is not a GGUF file, which llama.cpp reads: pass --model FILE.gguf"
        )
    folder = resolve(str(file))
    sides: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    with scratch_folder() as scratch:
        given = scratch / "task.json"
        given.write_text(json.dumps(asdict(task(folder, options))), "utf-8")
        for _, side in turns(SIDES, options.repeats, report):
            weights = folder if side == "engine" else file
            child = run_child(side, "-m", "evals.bench.embedded", side, str(weights), str(given))
            sides[side].append(json.loads(child.output.splitlines()[-1]))
    return result(sides["engine"], sides["llama.cpp"])


def result(engine: Sequence[Mapping[str, float]], llama: Sequence[Mapping[str, float]]) -> Result:
    """Medians of both sides, and how many times better the engine's is."""
    rows = [("", "unit", *SIDES, "times better")]
    figures, details = {}, {}
    for name, unit in MEASURES.items():
        ours, theirs = (median(repeat[name] for repeat in repeats) for repeats in (engine, llama))
        figures[name] = theirs / ours if name in _LESS_IS_BETTER else ours / theirs
        details[name] = {"engine": round(ours, 2), "llama.cpp": round(theirs, 2), "unit": unit}
        rows.append((name.replace("_", " "), unit, f"{ours:.1f}", f"{theirs:.1f}", f"{figures[name]:.2f}"))
    return Result(
        "embedded",
        Part("embedded engine, writing", "tokens/s", tuple(repeat["writing"] for repeat in engine)),
        Part("llama.cpp, writing", "tokens/s", tuple(repeat["writing"] for repeat in llama)),
        figures=figures,
        details=details,
        rows=rows,
    )


def _main(name: str, weights: str, given: str) -> None:
    """Print the measures of one side as JSON. Its libraries are imported before anything is timed."""
    asked = Task(**json.loads(Path(given).read_text("utf-8")))
    if name == "engine":
        stay_offline()
        importlib.import_module("serving.embedded.engine")
        found = measured(lambda: EngineSide(Path(weights)), asked)
    else:
        importlib.import_module("xllamacpp")
        found = measured(lambda: LlamaSide(Path(weights), os.cpu_count() or 1, asked.context), asked)
    sys.stdout.write(json.dumps({**found, "peak_memory": peak_mb()}) + "\n")


if __name__ == "__main__":
    _main(*sys.argv[1:])
