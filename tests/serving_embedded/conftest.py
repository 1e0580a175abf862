"""Real weights for every test here: pulled once into the ordinary cache, loaded once in a session."""

import json
from pathlib import Path

import pytest
import torch

from serving.backends import Backend, connect
from serving.embedded.chat_format import ChatFormat, chat_format
from serving.embedded.engine import Engine
from serving.protocol.model_name import ModelName
from tests.serving_embedded.cases import MODEL
from weights.pull import pull

LAYERS = 4
"""Of thirty. Rows, prefixes and schemas do not depend on how well a model talks."""


@pytest.fixture(scope="session")
def whole_folder() -> Path:
    return pull(MODEL)


@pytest.fixture(scope="session")
def folder(whole_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model with its first layers alone, a fifth of the time."""
    cut = tmp_path_factory.mktemp("embedded") / "cut"
    cut.mkdir()
    for path in whole_folder.iterdir():
        (cut / path.name).symlink_to(path)
    config = json.loads((whole_folder / "config.json").read_text("utf-8"))
    (cut / "config.json").unlink()
    (cut / "config.json").write_text(json.dumps(config | {"num_hidden_layers": LAYERS}), "utf-8")
    return cut


@pytest.fixture(scope="session")
def chat(folder: Path) -> ChatFormat:
    return chat_format(folder)


@pytest.fixture(scope="session")
def engine(folder: Path, chat: ChatFormat) -> Engine:
    return Engine(folder, chat.tokenizer)


@pytest.fixture(scope="session")
def exact_engine(folder: Path, chat: ChatFormat) -> Engine:
    """For what is computed in two ways: products in bf16 depend on their shape, and on the processor."""
    return Engine(folder, chat.tokenizer, dtype=torch.float32)


@pytest.fixture(scope="session")
def whole_engine(whole_folder: Path, chat: ChatFormat) -> Engine:
    return Engine(whole_folder, chat.tokenizer)


@pytest.fixture
def backend(folder: Path) -> Backend:
    return connect(ModelName("embedded", str(folder)))


@pytest.fixture
def whole_backend(whole_folder: Path) -> Backend:
    return connect(ModelName("embedded", str(whole_folder)))
