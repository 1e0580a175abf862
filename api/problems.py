"""Refusals as problem details (RFC 9457): what went wrong, for programs and for people."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from cases.texts import printable

MEDIA_TYPE = "application/problem+json"


class Problem(BaseModel):
    """Problem details as RFC 9457 has them."""

    type: str = Field(
        "about:blank", description="No page describes the problem further than its status does."
    )
    title: str = Field(description="The words of the status.", examples=["Unprocessable Entity"])
    status: int = Field(description="The HTTP status.", examples=[422])
    detail: str = Field(description="Fault of this request, and its remedy.")
    instance: str | None = Field(None, description="Path of the request.")
    pointer: str | None = Field(None, description="The field that is wrong, as a JSON pointer.")


class Refused(HTTPException):
    """A request that is not served."""

    def __init__(
        self, status: int, detail: str, pointer: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        """`detail` is a line with fault and remedy; `pointer` is the field, as a JSON pointer."""
        super().__init__(status, printable(detail), dict(headers or {}))
        self.pointer = pointer


def answer(
    status: int,
    detail: str,
    instance: str | None = None,
    pointer: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Response to a rejected request."""
    problem = Problem(
        title=HTTPStatus(status).phrase, status=status, detail=detail, instance=instance, pointer=pointer
    )
    body: dict[str, Any] = problem.model_dump(exclude_none=True)
    return JSONResponse(body, status, dict(headers or {}), MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Answer rejected and failed requests with problem details."""
    app.exception_handler(HTTPException)(_refused)
    app.exception_handler(RequestValidationError)(_invalid)
    app.exception_handler(Exception)(_failed)


def described(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Refusals of an endpoint, for its description."""
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in statuses
    }


def pointer_of(location: tuple[int | str, ...]) -> str:
    """A place in a document as a JSON pointer (RFC 6901)."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in location)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    pointer = error.pointer if isinstance(error, Refused) else None
    detail = error.detail or HTTPStatus(error.status_code).phrase
    return answer(error.status_code, detail, request.url.path, pointer, error.headers)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = tuple(first["loc"])
    return answer(
        422, f"{'.'.join(map(str, place))}: {first['msg']}", request.url.path, pointer_of(place[1:])
    )


async def _failed(request: Request, error: Exception) -> Response:
    detail = f"The service failed with {type(error).__name__}. See its log for the location."
    return answer(500, detail, request.url.path)
