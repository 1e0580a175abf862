from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from serving.errors import ModelError
from serving.prices import Price, load_prices

Write = Callable[[str, str], Path]


def test_a_cost_is_that_of_a_million_tokens() -> None:
    assert Price(input=1.5, output=10).cost(2_000_000, 100_000) == 4.0


@pytest.mark.parametrize(("cached_price", "cost"), [(0.5, 2.0), (0.0, 1.5), (None, 3.0)])
def test_cached_tokens_cost_what_is_said_or_else_as_others(cached_price: float | None, cost: float) -> None:
    price = Price(input=1.5, output=10, cached_input=cached_price)
    assert price.cost(2_000_000, 0, cached_tokens=1_000_000) == cost


def test_a_price_file_names_models_without_addresses(write: Write) -> None:
    path = write("prices.yaml", 'models: {"openai:gpt-x": {input: 1.25, output: 10, cached_input: 0.13}}')
    assert load_prices(path) == {"openai:gpt-x": Price(input=1.25, output=10, cached_input=0.13)}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("models: {a: {input: 1}}", "models.a.output: Field required"),
        ("models: {a: {input: -1, output: 1}}", "models.a.input: Input should be greater"),
        ("models: {a: {input: 1, output: 1, cache: 1}}", "models.a.cache: Extra inputs"),
        ("prices: {}", "models: Field required"),
        ("- 1", "the file: Input should be"),
        ("", "the file: Input should be"),
        ("models: {a: [", "while parsing"),
        ("models: {a: {input: .nan, output: 1}}", "models.a.input: Input should be"),
        ("models: {a: {input: .inf, output: 1}}", "models.a.input: Input should be"),
    ],
)
def test_a_price_file_that_cannot_be_used_is_one_line(write: Write, text: str, fault: str) -> None:
    path = write("prices.yaml", text)
    with pytest.raises(ModelError) as caught:
        load_prices(path)
    assert f"price file {path}: " in str(caught.value)
    assert fault in str(caught.value) and "\n" not in str(caught.value)


def test_a_price_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="No such file"):
        load_prices(tmp_path / "prices.yaml")
