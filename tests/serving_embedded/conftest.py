"""Real weights for every test here: pulled once into the ordinary cache, loaded once in a session."""

from pathlib import Path

import pytest

from serving.backends import Backend, connect
from serving.embedded.chat_format import ChatFormat, chat_format
from serving.embedded.engine import Engine
from serving.model_name import ModelName
from tests.serving_embedded.cases import MODEL
from weights.pull import pull


@pytest.fixture(scope="session")
def folder() -> Path:
    return pull(MODEL)


@pytest.fixture(scope="session")
def chat(folder: Path) -> ChatFormat:
    return chat_format(folder)


@pytest.fixture(scope="session")
def engine(folder: Path, chat: ChatFormat) -> Engine:
    return Engine(folder, chat.tokenizer)


@pytest.fixture
def backend(folder: Path) -> Backend:
    return connect(ModelName("embedded", str(folder)))
