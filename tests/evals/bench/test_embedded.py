"""The benchmark of the embedded engine against llama.cpp, with sides that only count."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from evals.bench.benchmark import BenchError
from evals.bench.embedded import MEASURES, Options, Task, measure, measured, result


class CountingSide:
    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []

    def write(self, prompt: Sequence[int], tokens: int) -> int:
        self.asked.append((len(prompt), tokens))
        return tokens

    def choose(self, prompts: Sequence[Sequence[int]]) -> None:
        self.asked.append((len(prompts), 0))


def test_prompts_are_known_before_writing_is_timed() -> None:
    side = CountingSide()
    task = Task(story=[1], note=[1, 2], repeat=[1, 2, 3], questions=[[1], [2]], tokens=9)
    found = measured(lambda: side, task)
    assert side.asked == [(1, 2), (2, 1), (1, 1), (1, 9), (3, 1), (3, 9), (2, 0)]
    assert {*found, "peak_memory"} == set(MEASURES)


def test_medians_of_both_sides_and_how_many_times_better_ours_are() -> None:
    engine = [dict.fromkeys(MEASURES, value) for value in (4.0, 9.0, 5.0)]
    llama = [dict.fromkeys(MEASURES, value) for value in (10.0, 10.0, 10.0)]
    given = result(engine, llama).as_json()
    assert (given["reading"], given["writing"]) == (0.5, 0.5)
    assert (given["loading"], given["questions"], given["peak_memory"]) == (2.0, 2.0, 2.0)
    assert given["details"]["repeating"] == {"engine": 5.0, "llama.cpp": 10.0, "unit": "tokens/s"}


def test_without_llama_cpp_the_message_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(BenchError, match="pip install xllamacpp"):
        measure(Options("model.gguf"), print)


def test_a_registered_name_is_not_a_file_that_both_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    for model in ("smollm2-135m", str(tmp_path / "absent.gguf"), str(tmp_path)):
        with pytest.raises(BenchError, match="is not a GGUF file"):
            measure(Options(model), print)
