from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers.utils import logging

from ranking.rankers.checkpoint import RankerManifest
from ranking.training.train import train
from tests.ranking.training.tiny import data, encoder_on_disk, job


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Threads wait for each other longer than such a model takes."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


Train = Callable[..., RankerManifest]


@pytest.fixture(scope="session")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    return encoder_on_disk(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def tiny_train(encoder_folder: str) -> Train:
    """Train the tiny encoder; values of the recipe and arguments of `train` by keyword."""

    def run(folder: Path, **values: Any) -> RankerManifest:
        arguments = {name: values.pop(name) for name in ("resume", "watcher", "stopping") if name in values}
        examples = values.pop("data", data())
        return train(job(encoder_folder, **values), examples, folder, **arguments)

    return run


@pytest.fixture(scope="session")
def trained(encoder_folder: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished ranker; tests copy what they change."""
    folder = tmp_path_factory.mktemp("trained") / "ranker"
    train(job(encoder_folder), data(), folder)
    return folder
