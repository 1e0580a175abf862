from __future__ import annotations

import pytest
import yaml

from prompts.loader import _read_yaml

BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{after}: &{after} [{','.join([f'*{before}'] * 9)}]\n"
    for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize("text", [BOMB, "a: &a [*a]", "a: 1\na: 2", "a: [{b: 1, b: 2}]"])
def test_what_says_more_than_it_shows_is_refused(text: str) -> None:
    with pytest.raises(yaml.YAMLError, match=r"by an alias|stands twice"):
        _read_yaml(text.encode())


def test_other_yaml_is_read() -> None:
    assert _read_yaml(b"a: &x text\nb: [*x, {c: 1}]") == {"a": "text", "b": ["text", {"c": 1}]}
    assert _read_yaml(b"") is None
