from __future__ import annotations

from pathlib import Path

import pytest

from prompts import PromptError
from prompts.versions import read_yaml

BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{after}: &{after} [{','.join([f'*{before}'] * 9)}]\n"
    for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize("text", [BOMB, "a: &a [*a]", "a: 1\na: 2", "a: [{b: 1, b: 2}]"])
def test_what_says_more_than_it_shows_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "odd.yaml"
    file.write_text(text)
    with pytest.raises(PromptError, match=r"by an alias|duplicate key"):
        read_yaml(file)


def test_a_file_beyond_a_megabyte_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "long.yaml"
    file.write_text("#" * (1 << 20))
    assert read_yaml(file)[1] is None
    file.write_text("#" * ((1 << 20) + 1))
    with pytest.raises(PromptError, match=r"long\.yaml: is longer than 1 MB"):
        read_yaml(file)


def test_other_yaml_is_read(tmp_path: Path) -> None:
    file = tmp_path / "plain.yaml"
    file.write_text("a: &x text\nb: [*x, {c: 1}]")
    assert read_yaml(file) == (file.read_bytes(), {"a": "text", "b": ["text", {"c": 1}]})
    file.write_text("")
    assert read_yaml(file) == (b"", None)
