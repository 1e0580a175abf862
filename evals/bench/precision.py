"""Votes with reflection on one case: the embedded engine with weights in bf16 against int8.

The case is that of `bench embedded`. Each side has a process of its own, so that its peak memory is only its
own. Replies are sampled from weights that differ a little, so the sides write slightly different numbers of
tokens; the figure is therefore tokens a second, read and written.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals.bench.benchmark import Part, Report, Result
from evals.bench.measuring import peak_mb, processor_seconds, run_child, turns
from weights.pull import resolve


@dataclass(frozen=True, slots=True)
class Options:
    """A registered model or a folder, sentences of the note, votes, repeats."""

    model: str = "smollm2-135m"
    sentences: int = 8
    votes: int = 3
    repeats: int = 1


TINY = {"sentences": 2, "votes": 1}


def measure(options: Options, report: Report) -> Result:
    """Both sides in turn, each in a process of its own.

    Raises:
        BenchError: One of them failed.
    """
    folder = resolve(options.model.removeprefix("embedded:"))
    read: dict[str, list[dict[str, Any]]] = {"int8": [], "bf16": []}
    for _, side in turns(("int8", "bf16"), options.repeats, report):
        size = (str(options.sentences), str(options.votes))
        child = run_child(f"the engine in {side}", "-m", "evals.bench.precision", str(folder), side, *size)
        read[side].append(json.loads(child.output))
    int8, bf16 = read["int8"], read["bf16"]
    return Result(
        "precision",
        Part("int8", "tokens/s", tuple(one["tokens"] / one["seconds"] for one in int8)),
        Part("bf16", "tokens/s", tuple(one["tokens"] / one["seconds"] for one in bf16)),
        figures={"processor_time_ratio": _processor(bf16) / _processor(int8)},
        details={"model": options.model, "votes": options.votes, "int8": int8, "bf16": bf16},
    )


def _processor(sides: list[dict[str, Any]]) -> float:
    """Processor time of a token."""
    return sum(float(one["processor_seconds"]) for one in sides) / sum(int(one["tokens"]) for one in sides)


def one_side(folder: Path, precision: str, sentences: int, votes: int) -> dict[str, Any]:
    """Load the model and answer."""
    # Here, so that the process that compares loads neither torch nor weights.
    from evals.bench import embedded
    from serving.embedded.chat_format import chat_format
    from serving.embedded.precision import PRECISIONS

    options = embedded.Options(str(folder), sentences=sentences, votes=votes)
    chosen = next(one for one in PRECISIONS if one == precision)
    begin = time.perf_counter()
    engine = embedded.warm_engine(folder, chat_format(folder), chosen, sentences)
    loading, processor = time.perf_counter() - begin, processor_seconds()
    seconds, reply, reflections = embedded.time_engine(engine, chat_format(folder), options)
    replies = [reply, *reflections]
    return {
        "seconds": round(seconds, 3),
        "processor_seconds": round(processor_seconds() - processor, 3),
        "tokens": sum(one.input_tokens - one.cached_tokens + one.output_tokens for one in replies),
        "tokens_written": sum(one.output_tokens for one in replies),
        "loading_seconds": round(loading, 1),
        "peak_mb": round(peak_mb()),
    }


if __name__ == "__main__":
    from weights.loading import let_threads_sleep

    let_threads_sleep()
    side = one_side(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    sys.stdout.write(json.dumps(side) + "\n")
