from __future__ import annotations

import pytest

from graph.system import UnknownSystem, find_system, systems


def test_the_systems_are_the_recipes_with_a_graph() -> None:
    assert "tamu" in systems()
    assert "demo" not in systems()


def test_a_system_is_built_by_its_name() -> None:
    system = find_system("tamu")
    assert system.name == system.build().name == "tamu"


def test_an_unknown_system_names_the_nearest() -> None:
    with pytest.raises(UnknownSystem, match="unknown system 'tamo'; did you mean 'tamu'"):
        find_system("tamo")


@pytest.mark.parametrize("name", ["recipe", "system", "zzzzzz", "", "../tamu", "demo"])
def test_a_module_that_is_no_system_is_not_built(name: str) -> None:
    with pytest.raises(UnknownSystem):
        find_system(name)
