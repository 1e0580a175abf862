from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import Field, model_validator

from cases.definitions import DefinitionKind, Section, values_sha256


class ToyError(Exception):
    pass


class Wheel(Section):
    size: int = Field(10, ge=1)


class Toy(Section):
    colour: str = "red"
    wheel: Wheel = Wheel()
    spare: Wheel | None = None
    others: dict[str, Wheel] = Field(default_factory=dict)
    rows: tuple[Wheel, ...] = ()

    @model_validator(mode="after")
    def _green_has_a_spare(self) -> Toy:
        if self.colour == "green" and self.spare is None:
            raise ValueError("a green toy needs a spare wheel")
        return self


@pytest.fixture
def kind(tmp_path: Path) -> DefinitionKind:
    folder = tmp_path / "packaged"
    folder.mkdir()
    (folder / "car.yaml").write_text("# A car.\nwheel: {size: 4}\n")
    (folder / "train.yaml").write_text("{}")
    (folder / "notes.txt").write_text("")
    return DefinitionKind("toy", "toys", folder, ToyError)


def fault_of(kind: DefinitionKind, tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ToyError) as caught:
        kind.load(Toy, str(path))
    assert str(caught.value).startswith(f"toy {path}: ")
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"toy {path}: ")


def test_packaged_ones_go_by_name_and_others_by_path(kind: DefinitionKind, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("colour: blue")
    assert kind.packaged_names() == ["car", "train"]
    assert kind.load(Toy, "car").wheel.size == 4
    assert kind.load(Toy, str(tmp_path / "mine.yaml")).colour == "blue"
    assert kind.read("car").text.startswith("# A car.")
    assert kind.read("car").folder == tmp_path / "packaged"
    assert kind.read(str(tmp_path / "mine.yaml")).folder == tmp_path


@pytest.mark.parametrize(
    ("name", "hint"), [("cars", "did you mean 'car'?"), ("x", "packaged toys: car, train")]
)
def test_an_unknown_name_gets_the_nearest_or_all(kind: DefinitionKind, name: str, hint: str) -> None:
    with pytest.raises(ToyError, match=re.escape(f"toy {name}: No such file or directory; {hint}")):
        kind.read(name)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("- a", "it must be a mapping of fields to values"),
        ("colour: [", "while parsing"),
        ("colour: 2026-13-45", "month must be in 1..12"),
        ("wheel: {size: 0}", "wheel.size: Input should be greater than or equal to 1"),
        ("color: red", "unknown field 'color'; did you mean 'colour'?"),
        ("wheel: {sise: 1}", "unknown field 'wheel.sise'; did you mean 'size'?"),
        ("spare: {sise: 1}", "unknown field 'spare.sise'; did you mean 'size'?"),
        ("others: {left: {sise: 1}}", "unknown field 'others.left.sise'; did you mean 'size'?"),
        ("rows: [{sise: 1}]", "unknown field 'rows.0.sise'; did you mean 'size'?"),
        ("wheel: {xyz: 1}", "unknown field 'wheel.xyz'; known: size"),
        ("colour: green", "a green toy needs a spare wheel"),
        ("# " + "x" * (1 << 20), "is longer than 1 MB"),
    ],
)
def test_faults_name_the_field(kind: DefinitionKind, tmp_path: Path, text: str, fault: str) -> None:
    assert fault_of(kind, tmp_path, text).startswith(fault)


def test_overrides_reach_sections_that_were_not_there(kind: DefinitionKind) -> None:
    changed = kind.override(Toy(), {"spare.size": 3, "colour": "green"}, "car")
    assert changed == Toy(colour="green", spare=Wheel(size=3))
    assert kind.override(changed, {}, "car") is changed


@pytest.mark.parametrize(
    ("field", "fault"),
    [
        ("wheel.sise", "did you mean 'size'"),
        ("colour.x", "'colour' is not a section"),
        ("colour.x.y", "'colour' is not a section"),
        ("a.b", "unknown field 'a'"),
    ],
)
def test_wrong_overrides_are_refused(kind: DefinitionKind, field: str, fault: str) -> None:
    with pytest.raises(ToyError, match=fault):
        kind.override(Toy(), {field: 3}, "car")


def test_the_hash_is_of_values_and_not_of_what_was_written(kind: DefinitionKind) -> None:
    assert values_sha256(Toy()) == values_sha256(Toy(colour="red")) != values_sha256(Toy(colour="blue"))
