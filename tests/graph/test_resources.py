"""What holds for resources of every system: places, records, comparison on resume."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from graph.note_resources import Pool, PoolRecipe
from graph.recipe import RecipeError, make_recipe
from graph.resource import Opened, Record, Resource, ResourceRequest, open_resources
from graph.system import System, find_system, systems
from nodes.core.recipe import Recipe
from runs.execute.assemble import recorded_places
from runs.record.manifest import Inputs, Manifest, differences
from tests.nodes.builders import case, gold, pool_of

FOLDER = Path("here")


class Shelf(Resource):
    """Wanted by every recipe with a seed above 0; remembers how often it was opened."""

    places: ClassVar[tuple[str, ...]] = ("shelf",)
    compared: ClassVar[Mapping[str, tuple[str, ...]]] = {"shelf": ("identity",)}

    def __init__(self) -> None:
        self.requests: list[ResourceRequest] = []

    def reads(self, recipe: Recipe) -> object:
        return recipe.seed or None

    async def open(self, request: ResourceRequest) -> Opened:
        self.requests.append(request)
        return Opened({"shelf": "books"}, {"shelf": {"identity": "a", "folder": "here"}})


def request(seed: int = 1, **places: Path) -> ResourceRequest:
    return ResourceRequest(Recipe(system="tamu", seed=seed), "mine", places)


async def test_what_a_recipe_wants_is_opened_with_its_place() -> None:
    shelf = Shelf()
    (found,) = (await open_resources([shelf], request(shelf=FOLDER))).items()
    assert found == (shelf, Opened({"shelf": "books"}, {"shelf": {"identity": "a", "folder": "here"}}))
    assert [one.places for one in shelf.requests] == [{"shelf": FOLDER}]


async def test_what_a_recipe_does_not_want_is_not_opened() -> None:
    shelf = Shelf()
    assert await open_resources([shelf], request(seed=0)) == {}
    assert shelf.requests == []


async def test_what_is_open_already_is_taken_as_it_is() -> None:
    shelf, other = Shelf(), Opened({"shelf": "other"})
    assert await open_resources([shelf], request(), {shelf: other}) == {shelf: other}
    assert shelf.requests == []


@pytest.mark.parametrize(
    ("seed", "places", "place"),
    [(0, {"shelf": FOLDER}, "shelf"), (1, {"attic": FOLDER}, "attic"), (0, {"attic": FOLDER}, "attic")],
)
async def test_a_place_that_nobody_uses_is_refused(seed: int, places: dict[str, Path], place: str) -> None:
    shelf = Shelf()
    with pytest.raises(RecipeError) as caught:
        await open_resources([shelf], request(seed, **places))
    assert str(caught.value) == f"recipe mine: the graph 'tamu' uses no {place}; leave --{place} out"


@pytest.mark.parametrize("name", systems())
async def test_no_system_takes_a_place_that_none_of_its_resources_has(name: str) -> None:
    system = find_system(name)
    with pytest.raises(RecipeError, match=f"the graph '{name}' uses no attic; leave --attic out"):
        await open_resources((), ResourceRequest(system.recipe.model_validate({}), "mine", {"attic": FOLDER}))
    places = [place for resource in system.resources for place in resource.places]
    assert len(places) == len(set(places)), "two resources would read one option"


@pytest.mark.parametrize("name", systems())
def test_records_of_a_system_have_one_resource_each(name: str) -> None:
    system = find_system(name)
    assert sum(len(one.compared) for one in system.resources) == len(system.compared)


async def test_a_pool_that_no_prompt_shows_is_refused() -> None:
    values = {"system": "tamu", "stop_after": "evidence", "evidence": {"demonstrations": 0}}
    asked = ResourceRequest(make_recipe(values, "mine"), "mine", {"demos": FOLDER})
    with pytest.raises(RecipeError) as caught:
        await open_resources(find_system("tamu").resources, asked)
    assert str(caught.value) == "recipe mine: its prompts show no demonstrations; leave --demos out"


async def test_a_listed_demonstration_that_the_pool_has_not_is_refused(tmp_path: Path) -> None:
    pool = await pool_of(tmp_path, case("p1", gold=gold()))
    values = {
        "system": "tamu",
        "embedding": "lexical:256",
        "evidence": {"demonstrations": 2, "demonstrations_from": ["p9", "p1"]},
    }
    asked = ResourceRequest(make_recipe(values, "mine"), "mine", {"demos": pool.folder})
    with pytest.raises(RecipeError, match=r"evidence\.demonstrations_from: the pool .* no case 'p9'"):
        await open_resources(find_system("tamu").resources, asked)


def test_a_recipe_with_a_pool_shows_demonstrations_unless_it_says_otherwise() -> None:
    assert Pool().reads(PoolRecipe(system="mine", embedding="lexical:256")) == "lexical:256"
    assert Pool().reads(Recipe(system="mine")) is None


POOL = {"folder": "pool", "sha256": "a", "embedder": "lexical:256", "count": 3}
CORPUS = {"folder": "corpus", "identity": "c@1", "documents": 24}
INDEX = {"folder": "index", "identity": "dense:1", "documents": 24}
SHOTS = {"path": "train.json", "sha256": "s", "count": 20}


def manifest(system: str, **resources: Record) -> Manifest:
    return Manifest(
        evigraph="0",
        system=system,
        recipe={},
        recipe_sha256="",
        recipe_origin="",
        prompts={},
        inputs=Inputs(paths=[], sha256="", cases=0),
        models={},
        resources={name: dict(record) for name, record in resources.items()},
        versions={},
    )


@pytest.mark.parametrize(
    ("values", "places"),
    [
        ({"system": "tamu"}, {"demos": Path("pool")}),
        ({"system": "tamu", "stop_after": "evidence", "evidence": "ranker"}, {}),
        ({"system": "heids"}, {}),
        ({"system": "timeaware"}, {"corpus": Path("corpus")}),
        (
            {"system": "bioasq", "documents": {"phase": "both"}},
            {"corpus": Path("corpus"), "index": Path("index"), "demos": Path("train.json")},
        ),
        ({"system": "bioasq", "documents": {"phase": "b"}}, {"demos": Path("train.json")}),
    ],
)
def test_a_run_that_goes_on_finds_what_its_recipe_reads(
    values: dict[str, Any], places: dict[str, Path]
) -> None:
    records: dict[str, Record] = {"demonstrations": POOL, "corpus": CORPUS}
    if values["system"] == "bioasq":
        records |= {"index": INDEX, "answered_questions": SHOTS}
    recipe = make_recipe(values, "mine")
    assert recorded_places(manifest(recipe.system, **records), recipe) == places


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({"documents": {"phase": "both", "retriever": "words"}}, "index"),
        ({"documents": {"phase": "b"}, "exact": {"shots": 0}}, "demos"),
        ({"documents": {"phase": "a"}}, "demos"),
    ],
)
def test_a_fork_does_not_inherit_a_place_that_its_recipe_refuses(values: dict[str, Any], place: str) -> None:
    """A changed recipe of a fork is opened with the places of its run."""
    recipe = make_recipe({"system": "bioasq", **values}, "mine")
    run = manifest("bioasq", corpus=CORPUS, index=INDEX, answered_questions=SHOTS)
    assert place not in recorded_places(run, recipe)


def test_nothing_is_found_where_nothing_was_recorded() -> None:
    recipe = make_recipe({"system": "tamu"}, "mine")
    assert recorded_places(manifest("tamu"), recipe) == {}


COMPARED = [
    pytest.param(system, record, field, id=f"{system.name}-{record}-{field}")
    for system in map(find_system, systems())
    for record, fields in system.compared.items()
    for field in fields
]


@pytest.mark.parametrize(("system", "record", "field"), COMPARED)
def test_a_compared_field_that_changed_refuses_a_resume(system: System, record: str, field: str) -> None:
    before = manifest(system.name, **{record: {field: "a"}})
    after = manifest(system.name, **{record: {field: "b"}})
    named = [record.replace("_", " ")]
    assert differences(before, before, system.compared) == []
    assert differences(before, after, system.compared) == named
    assert differences(before, manifest(system.name), system.compared) == named
    assert differences(manifest(system.name), after, system.compared) == named


def test_a_resource_that_changed_in_two_fields_is_named_once() -> None:
    before, after = manifest("tamu", demonstrations=POOL), manifest("tamu", demonstrations={})
    assert differences(before, after, find_system("tamu").compared) == ["demonstrations"]


@pytest.mark.parametrize(
    ("record", "moved"),
    [("corpus", CORPUS | {"folder": "elsewhere"}), ("answered_questions", SHOTS | {"path": "elsewhere"})],
)
def test_what_has_moved_is_the_same(record: str, moved: Record) -> None:
    before = manifest("bioasq", corpus=CORPUS, answered_questions=SHOTS)
    after = before.model_copy(update={"resources": before.resources | {record: dict(moved)}})
    assert differences(before, after, find_system("bioasq").compared) == []
