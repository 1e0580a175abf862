"""Processor time to cut rankings by their own scores, against one pass of Python over the same scores.

Rankings are sorted beforehand, as where several rules cut one ranking.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

import numpy as np

from evals.bench.benchmark import Part, Report, Result
from ranking.cutoffs import Autocut, AutocutStar, Cutoff, Elbow, Surprise, SurpriseClean, TopK, kept
from ranking.prefixes import Floats

SIMPLE: Mapping[str, Cutoff] = {
    "autocut": Autocut(),
    "autocut_star": AutocutStar(),
    "elbow": Elbow(),
    "top_k": TopK(k=10),
}
FITTED: Mapping[str, Cutoff] = {"surprise": Surprise(), "surprise_clean": SurpriseClean()}


@dataclass(frozen=True, slots=True)
class Options:
    """Lists, scores of each, lists for the rules that fit a distribution, repeats."""

    lists: int = 1000
    scores: int = 54
    fitted_lists: int = 1000
    repeats: int = 5


TINY = {"lists": 20, "fitted_lists": 4, "repeats": 2}


def measure(options: Options, report: Report) -> Result:
    """Time every rule; the four simple ones and the pass take turns."""
    rankings = _rankings(options.lists, options.scores)
    simple: dict[str, list[float]] = {name: [] for name in SIMPLE}
    passes = []
    for repeat in range(options.repeats):
        report(
            f"{options.lists:,} lists of {options.scores} scores, repeat {repeat + 1} of {options.repeats}"
        )
        for name, rule in SIMPLE.items():
            simple[name].append(_time(rule, rankings))
        passes.append(_time_of_pass([one.tolist() for one in rankings]))
    fitted: dict[str, list[float]] = {}
    for name, rule in FITTED.items():
        report(f"{name} on {options.fitted_lists} lists")
        fitted[name] = _times(rule, rankings[: options.fitted_lists])
    together = tuple(sum(each) for each in zip(*simple.values(), strict=True))
    return Result(
        "truncation",
        Part("autocut, autocut*, elbow and fixed k", "ms", together),
        Part("one pass of Python over the scores", "ms", tuple(passes)),
        figures={
            "simple_ms": min(together),
            **{f"{name}_ms_a_list": fmean(times) for name, times in fitted.items()},
        },
        details={
            "lists": options.lists,
            "scores": options.scores,
            "fitted_lists": options.fitted_lists,
            **{f"{name}_ms": round(min(times), 2) for name, times in simple.items()},
            **{f"{name}_longest_ms": round(max(times), 2) for name, times in fitted.items()},
        },
    )


def _rankings(lists: int, scores: int) -> list[Floats]:
    """Cosines as of a note: most alike, a few that stand out."""
    generator = np.random.default_rng(0)
    ascending = np.sort(generator.gumbel(0.35, 0.08, size=(lists, scores)).clip(-1, 1), axis=1)
    return list(np.ascontiguousarray(ascending[:, ::-1]))


def _time(rule: Cutoff, rankings: Sequence[Floats]) -> float:
    begin = time.process_time()
    for ranking in rankings:
        kept(rule, ranking)
    return 1000 * (time.process_time() - begin)


def _times(rule: Cutoff, rankings: Sequence[Floats]) -> list[float]:
    """Milliseconds of each list."""
    ends = [time.process_time()]
    for ranking in rankings:
        kept(rule, ranking)
        ends.append(time.process_time())
    return [1000 * (end - begin) for begin, end in pairwise(ends)]


def _time_of_pass(rankings: Sequence[Sequence[float]]) -> float:
    begin = time.process_time()
    for ranking in rankings:
        total = 0.0
        for score in ranking:
            total += score
    return 1000 * (time.process_time() - begin)
