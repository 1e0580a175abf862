"""`evigraph users`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cases.texts import quoted
from cli.terminal import Result, print_line, print_message, print_rows

if TYPE_CHECKING:
    from datetime import datetime

    from access.users import User, Users

users = typer.Typer(help="People who may sign in to `view --users FILE`: add, list, remove them.")

FileOption = Annotated[
    Path | None,
    typer.Option("--users", help="File of users. (default: in the user's configuration)", metavar="FILE"),
]
NameArgument = Annotated[
    str, typer.Argument(help="A person's name, as reviews are to have it.", metavar="NAME")
]


@users.command()
def add(
    name: NameArgument,
    role: Annotated[
        Literal["view", "submit", "review", "admin"] | None,
        typer.Option(
            help="view reads; submit sends cases to `api`; review saves reviews too; admin may do all, and"
            " sees what all reviewers say."
        ),
    ] = None,
    days: Annotated[
        int | None,
        typer.Option(min=1, max=3650, help="Days until the token expires. (default: never)", metavar="N"),
    ] = None,
    renew: Annotated[
        bool, typer.Option("--renew", help="A new token for a user; the old one opens nothing any more.")
    ] = False,
    file: FileOption = None,
) -> Result:
    """Add a user, and print their token once; only its hash is stored.

    Example: evigraph users add ana --role review --days 90
    """
    from datetime import UTC, datetime

    known = _known(file)
    made, token = known.add(name, role, datetime.now(UTC), days=days, renew=renew)

    def print_token() -> None:
        print_line(token)
        until = f" until {made.expires[:10]}" if made.expires is not None else ""
        print_message(
            f"the token of {made.name} ({made.role}){until}; it is shown this once. They sign in at:"
            f" evigraph view RUN --users {quoted(known.path)}"
        )

    return Result({"file": str(known.path), **_fields(made), "token": token}, print_token)


@users.command("list")
def list_users(file: FileOption = None) -> Result:
    """List users.

    Example: evigraph users list
    """
    from datetime import UTC, datetime

    known = _known(file)
    everybody = known.all()

    def print_users() -> None:
        now = datetime.now(UTC)
        rows = [(one.name, one.role, one.added[:10], _until(one, now)) for one in everybody]
        if rows:
            print_rows(("name", "role", "token of", "expires"), rows)
        else:
            print_line(f"{known.path}: no users")

    return Result({"file": str(known.path), "users": [_fields(one) for one in everybody]}, print_users)


@users.command()
def remove(name: NameArgument, file: FileOption = None) -> Result:
    """Remove a user; their sessions end at once, and their reviews stay.

    Example: evigraph users remove ana
    """
    known = _known(file)
    gone = known.remove(name)
    line = f"{gone.name} is removed from {known.path}"
    return Result({"file": str(known.path), "removed": gone.name}, lambda: print_line(line))


def _known(file: Path | None) -> Users:
    from access.users import Users, default_file

    return Users(file or default_file())


def _until(user: User, now: datetime) -> str:
    if user.expires is None:
        return "never"
    return user.expires[:10] + (" (expired)" if user.expired(now) else "")


def _fields(user: User) -> dict[str, Any]:
    return {"name": user.name, "role": user.role, "added": user.added, "expires": user.expires}
