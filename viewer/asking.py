"""What requests ask for."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request

from runs.manifest import RunError
from runs.reading import Run


def parameter(request: Request, name: str) -> str:
    """A parameter of the address.

    Raises:
        HTTPException: It is not there.
    """
    found = request.query_params.get(name)
    if not found:
        raise HTTPException(404, f"The address names no {name}.")
    return found


def demand_case(run: Run, case_id: str) -> None:
    """Refuse a case that the run does not have.

    Raises:
        HTTPException: It does not.
    """
    try:
        run.line(case_id)
    except RunError as error:
        raise HTTPException(404, str(error)) from None
