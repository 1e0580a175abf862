"""What `evigraph models check` says of a server, and of one that cannot be used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from graph.recipe import RECIPES
from tests.evigraph import Ended, evigraph
from tests.serving.fake_abilities import Abilities
from tests.serving.fake_server import MODEL, FakeServer


@pytest.fixture
def server() -> Iterator[FakeServer]:
    server = FakeServer()
    server.start()
    yield server
    server.stop()


def check(server: FakeServer, folder: Path, *more: str) -> Ended:
    return evigraph("models", "check", f"openai:{MODEL}@{server.url}", *more, folder=folder)


def test_all_that_a_model_can_do_is_listed_with_its_price(server: FakeServer, tmp_path: Path) -> None:
    (tmp_path / "prices.yaml").write_text(f'models: {{"openai:{MODEL}": {{input: 1, output: 2.5}}}}\n')
    ended = check(server, tmp_path, "--prices", "prices.yaml")
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    runs = next(number for number, line in enumerate(lines) if line.startswith("runs"))
    assert {line[:15].strip(): line[15:].strip() for line in lines[:runs]} == {
        "model": f"openai:{MODEL}@{server.url}",
        "reachable": "yes",
        "context": "4,096 tokens",
        "longest reply": "unknown",
        "limit": "max_tokens",
        "thinking": "not seen",
        "efforts": "off, minimal, low, medium, high, max",
        "schema": "json_schema",
        "n": "yes",
        "seed": "no",
        "logprobs": "yes",
        "temperature": "yes",
        "tokenizer": "none; lengths are estimated",
        "source": "requests",
        "price": "1 read, 2.5 written, per million tokens",
    }
    found = check(server, tmp_path, "--json").summary
    assert found["recipes"] == dict.fromkeys(RECIPES.packaged_names())
    assert (found["reachable"], found["constraint"], found["context_length"]) == (True, "json_schema", 4096)


def test_recipes_that_a_model_cannot_run_are_named_with_the_reason(
    server: FakeServer, tmp_path: Path
) -> None:
    server.abilities = Abilities(refuses=frozenset({"logprobs"}))
    ended = check(server, tmp_path)
    assert ended.code == 0
    printed = " ".join(ended.out.split())
    assert "cannot run laptop, tamu-pointwise: model" in printed
    assert "does not return log-probabilities" in printed
    recipes = check(server, tmp_path, "--json").summary["recipes"]
    assert {name for name, reason in recipes.items() if reason} == {"laptop", "tamu-pointwise"}


def test_a_model_that_does_not_answer_is_one_line(server: FakeServer, tmp_path: Path) -> None:
    server.abilities = Abilities(status=400)
    ended = check(server, tmp_path)
    assert ended.code == 1
    (line,) = ended.out.splitlines()
    assert line.startswith(f"openai:{MODEL}@{server.url} cannot be used: server {server.url} refuses")
    found = check(server, tmp_path, "--json")
    assert (found.code, found.summary["reachable"]) == (1, False)


def test_the_package_of_a_provider_is_named(tmp_path: Path) -> None:
    name = "langchain:fireworks:some-model"
    ended = evigraph("models", "check", name, folder=tmp_path)
    assert ended.code == 1
    (line,) = ended.out.splitlines()
    assert line.startswith(f"{name} cannot be used: ") and line.count(name) == 1
    assert "langchain-fireworks" in line


def test_a_limit_that_is_not_ours_to_name_is_left_out(tmp_path: Path) -> None:
    ended = evigraph("models", "check", "scripted:auto", folder=tmp_path)
    assert ended.code == 0
    assert "limit" not in [line.partition(" ")[0] for line in ended.out.splitlines()]
    assert (
        "limit_field" not in evigraph("models", "check", "scripted:auto", "--json", folder=tmp_path).summary
    )
