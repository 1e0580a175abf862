"""`evigraph view`."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import HostOption, PortOption, TlsOption, UsersOption, run_folder, users_of
from cli.terminal import plural, print_line, print_message

if TYPE_CHECKING:
    from viewer.library import Library

_DEFAULT = Path("out")


def view(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Run folders, or folders that hold some. (default: out)",
            metavar="[RUN...]",
            parser=run_folder,
        ),
    ] = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page where there is a display.")
    ] = True,
    ranker: Annotated[
        str,
        typer.Option(
            help="Ranker that verifies answers: support, logistic, bm25, or the folder of a trained ranker.",
            metavar="RANKER",
        ),
    ] = "support",
    blind: Annotated[
        bool,
        typer.Option(
            "--blind",
            help="Only pages to label cases on: no votes, labels, answers, keys or scores.",
        ),
    ] = False,
    by: Annotated[
        str | None,
        typer.Option(help="With --blind: the one reviewer whom the pages are for.", metavar="NAME"),
    ] = None,
    users: UsersOption = None,
    tls: TlsOption = None,
    going_on: Annotated[
        bool,
        typer.Option(
            "--resume/--no-resume", help="Let cases that waited for a person go on once they are reviewed."
        ),
    ] = True,
    bundle: Annotated[
        Path | None,
        typer.Option(
            help="Write the pages as files into this new folder instead of serving them.", metavar="DIR"
        ),
    ] = None,
    redact: Annotated[
        bool, typer.Option("--redact", help="With --bundle: leave out texts of cases, prompts, replies.")
    ] = False,
    calls: Annotated[
        bool, typer.Option("--calls/--no-calls", help="With --bundle: a page for each prompt and reply.")
    ] = True,
) -> None:
    """Show runs as a local web page: cases, charts, what every node decided; live while a run is in progress.

    The printed link contains a key that is new at each start. Ctrl-C ends the server. With `--bundle` the
    same pages are written as files that open from disk or any web host, without
    reviews and comparisons.

    A case that was waiting for a person continues once its labels are saved, and calls the run's models.

    With `--users` the link has no key: each person signs in with a token, and has a role.

    Example: evigraph view out/2026-11-21T10-15-tamu-ab12
    """
    _check(
        bundle is not None,
        redact=redact,
        blind=blind,
        by=by is not None,
        users=users is not None,
        tls=tls is not None,
    )
    if bundle is not None:
        _bundle(_roots(runs), bundle, redact=redact, with_calls=calls)
        return
    from ranking.rankers.load import located
    from runs.record.folder import RunFolder
    from runs.record.found import find_runs
    from runs.record.manifest import RunError
    from serving.protocol.addresses import is_loopback, plain_host
    from viewer.blind_handlers import Blind
    from viewer.library import Library
    from viewer.listening import Certificate, forget, has_display, listen, open_page, serve

    certificate = None if tls is None else Certificate.checked(*tls)
    known = users_of(users)
    roots = _roots(runs)
    beyond = not is_loopback(plain_host(host))
    if beyond:
        for path in find_runs(roots):
            # Its policy applies from here on; a damaged run is reported on its own page.
            with contextlib.suppress(RunError):
                RunFolder(path)
    library = Library(roots, print_message)
    bound = listen(host, port)
    if beyond:
        print_message(
            _warning(host, with_users=known is not None, encrypted=certificate is not None), "bold", wrap=True
        )
    _read_first(library)
    opened: list[Path | None] = []

    def started(link: str) -> None:
        count = len(library.names())
        typer.echo(f"{plural(count, 'run')}: {link}")
        print_message("Ctrl-C ends the server.")
        if browser and has_display():
            opened.append(open_page(link))

    try:
        serve(
            library,
            bound,
            host,
            started,
            located(ranker),
            _resume_command if going_on else None,
            Blind(by) if blind else None,
            known,
            certificate,
        )
    except KeyboardInterrupt:
        # This is the usual end of a server, not a failure.
        pass
    finally:
        bound.close()
        library.close()
        for folder in opened:
            forget(folder)


def _check(bundle: bool, *, redact: bool, blind: bool, by: bool, users: bool, tls: bool) -> None:
    """Refuse options that say nothing together.

    Raises:
        BadParameter: Names them.
    """
    refused = {
        "--redact needs --bundle DIR": redact and not bundle,
        "--blind pages take reviews: leave out --bundle": blind and bundle,
        "--by needs --blind": by and not blind,
        "--by is for one person: with --users each signs in": by and users,
        "nobody signs in to files: leave out --users and --tls, or --bundle": bundle and (users or tls),
    }
    for words, wrong in refused.items():
        if wrong:
            raise typer.BadParameter(words)


def _warning(host: str, *, with_users: bool, encrypted: bool) -> str:
    who = "users who sign in" if with_users else "anyone with the link"
    tokens = " Their tokens travel with them: encrypt by --tls." if with_users and not encrypted else ""
    how = "encrypted" if encrypted else "unencrypted"
    return f"{host}: {who} can now read case texts over the network, {how}.{tokens}"


def _resume_command(run: Path) -> list[str]:
    """Command that resumes the reviewed cases of a run in a separate process, which may load a model."""
    main = "from cli.main import main; main()"
    return [sys.executable, "-P", "-c", main, "resume", str(run), "--reviewed"]


def _bundle(roots: list[Path], out: Path, *, redact: bool, with_calls: bool) -> None:
    from cli.progress import progress
    from runs.record.found import find_runs
    from viewer.bundle import write_bundle
    from viewer.library import name_runs

    paths = name_runs(dict.fromkeys(find_runs(roots)), {})
    with progress("cases") as shown:
        made = write_bundle(paths, out, redact=redact, with_calls=with_calls, advance=shown.advance)
    size = f"{made.bytes / 1e6:,.1f} MB in {plural(made.files, 'file')}"
    print_line(f"{plural(made.cases, 'case')} of {plural(made.runs, 'run')}, {size}")
    if not redact:
        print_line("these pages hold texts of cases: treat them like the cases themselves", wrap=True)
    print_line(f"open {out / 'index.html'}")


def _roots(given: list[Path] | None) -> list[Path]:
    """Folders that hold a run.

    Raises:
        RunError: One holds none.
    """
    from runs.record.found import find_runs
    from runs.record.manifest import RunError

    roots = given or [_DEFAULT]
    for root in roots:
        if next(iter(find_runs([root])), None) is None:
            hint = "" if given else "; name one: evigraph view RUN"
            raise RunError(f"{root}: no run here or below{hint}")
    return roots


def _read_first(library: Library) -> None:
    """Index new runs, with progress in the terminal; a damaged run is reported on its page."""
    from runs.record.manifest import RunError

    for name in library.names():
        run = library.get(name)
        if run is not None:
            with contextlib.suppress(RunError):
                run.totals()
