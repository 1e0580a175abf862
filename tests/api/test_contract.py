"""Every endpoint against its own description: requests that are drawn from it, and answers held to it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from time import monotonic
from typing import Any
from weakref import WeakKeyDictionary

import hypothesis
import pytest
import schemathesis
from hypothesis.internal.conjecture.utils import many
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from api.callers import Rate
from api.offer import Limits
from api.routes import application
from tests.api.services import TOKENS, KnownTokens, Place

# Schemathesis' own client imports a name from where anyio had it earlier, and does not close its stream.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The anyio.abc.BlockingPortal alias:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Unclosed <MemoryObject:ResourceWarning"),
    # It draws its own addresses; its plugin for pytest, which is not loaded, would ignore this too.
    pytest.mark.filterwarnings("ignore:Overriding standard format:hypothesis.errors.HypothesisWarning"),
]

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
EXAMPLES = 12
"""A property of the endpoint is found by few; each is a request, and some begin a run."""


_drawn: WeakKeyDictionary[many, Iterator[None]] = WeakKeyDictionary()


def _more(elements: many) -> bool:
    """What `many` was asked by before it became an iterator; hypothesis-jsonschema 0.23 still asks so."""
    if elements not in _drawn:
        _drawn[elements] = iter(elements.__enter__())
    return next(_drawn[elements], _drawn) is not _drawn


@pytest.fixture(autouse=True)
def ask_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(many, "more"):
        monkeypatch.setattr(many, "more", _more, raising=False)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, str]]:
    """The application, and the id of a run that has ended."""
    place = Place(tmp_path_factory.mktemp("contract"))
    with place.client() as client:
        id_ = client.submitted()
        client.ended(id_)
        # Whatever is drawn is submitted by the hundred.
        limits = Limits(queued=10_000, per_minute=1_000_000)
        object.__setattr__(client.service.offer, "limits", limits)
        yield application(client.service, KnownTokens(), Rate(limits.per_minute, monotonic)), id_


OPERATIONS = [
    ("GET", "/v1/runs"),
    ("POST", "/v1/runs"),
    ("GET", "/v1/runs/{id}"),
    ("POST", "/v1/runs/{id}/cancel"),
    ("GET", "/v1/runs/{id}/cases"),
    ("GET", "/v1/runs/{id}/cases/{case}"),
    ("GET", "/v1/runs/{id}/cases/{case}/review"),
    ("POST", "/v1/runs/{id}/cases/{case}/review"),
    ("GET", "/v1/runs/{id}/events"),
    ("GET", "/v1/choices"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
]


def test_every_operation_is_tried(service: tuple[Any, str]) -> None:
    schema = schemathesis.openapi.from_asgi("/v1/openapi.json", service[0])
    found = [one.ok() for one in schema.get_all_operations() if isinstance(one, Ok)]
    assert sorted((one.method.upper(), one.path) for one in found) == sorted(OPERATIONS)
    for one in found:
        assert one.definition.raw["summary"]
        assert one.definition.raw["description"]


@pytest.mark.parametrize(
    ("method", "path", "known"),
    [
        *((method, path, False) for method, path in OPERATIONS),
        *((method, path, True) for method, path in OPERATIONS if "{id}" in path),
    ],
)
def test_answers_are_as_described(service: tuple[Any, str], method: str, path: str, known: bool) -> None:
    app, id_ = service
    schema = schemathesis.openapi.from_asgi("/v1/openapi.json", app)
    operation = schema[path][method]

    @hypothesis.settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None)
    @hypothesis.given(case=operation.as_strategy())
    def called(case: schemathesis.Case) -> None:
        if known:
            case.path_parameters = {**case.path_parameters, "id": id_}
            if "{case}" in path:
                case.path_parameters["case"] = "note"
        headers = {"Authorization": f"Bearer {TOKENS['admin']}"}
        case.call_and_validate(headers=headers, checks=CHECKS)

    called()
    # What is left open warns when it is collected: here, and not in the test of somebody else.
    gc.collect()
