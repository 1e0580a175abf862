"""A training of a second: a BERT of 16 dimensions, documents of a few words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ranking.examples import Example
from ranking.training.job import TrainingData, TrainingJob
from ranking.training.recipe import TRAINING_RECIPES, TrainingRecipe
from tests.ranking.models.tiny import WORDS, encoder


def encoder_on_disk(folder: Path, dropout: float = 0.1) -> str:
    """The tiny encoder as the folder of a transformers model."""
    tiny = encoder()
    config: Any = tiny.model.config
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = dropout
    tiny.model.save_pretrained(folder)  # type: ignore[operator]
    tiny.tokenizer.save_pretrained(folder)
    return str(folder)


def examples(count: int = 10) -> list[Example]:
    """The sentence that repeats the query's word is evidence."""
    found = []
    for number in range(count):
        word = WORDS[number % len(WORDS)]
        others = [other for other in WORDS if other != word]
        sentences = [f"{others[(number + place) % 9]} {others[(number + 4) % 9]}" for place in range(4)]
        place = number % 4
        sentences[place] = f"{word} {word}"
        found.append(
            Example(
                id=f"e{number}",
                query=word,
                sentences=tuple(sentences),
                labels=tuple(position == place for position in range(4)),
                document_id=f"d{number}",
                group=f"g{number}",
            )
        )
    return found


def job(encoder_folder: str, **values: Any) -> TrainingJob:
    recipe = {
        "model": {"encoder": encoder_folder, "max_query_tokens": 8, "max_sentence_tokens": 8},
        "epochs": 2,
        "encoder_lr": 1e-3,
        "precision": "float32",
        "split": {"held_out": 0.3, "seed": 1},
    }
    return TrainingJob(
        name="tiny", recipe=TRAINING_RECIPES.check(TrainingRecipe, {**recipe, **values}, "tiny")
    )


def data(count: int = 10) -> TrainingData:
    return TrainingData(examples(count))
