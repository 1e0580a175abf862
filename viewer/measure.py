"""Measures the pages of a run in a real browser: `python -m viewer.measure RUN` prints one JSON object."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_VIEW = "from cli.main import main; main()"
_READY = "#cases[data-ready]"
_FIGURES = ("runs", "table", "search", "filter", "sort", "case", "sentence")
# From the input event until the browser has drawn the result.
_FILTER = """([name, value]) => new Promise((resolve) => {
  const field = document.getElementById('filters').elements[name];
  const begin = performance.now();
  field.value = value;
  field.dispatchEvent(new Event('input', { bubbles: true }));
  requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - begin)));
})"""

_OPEN = """() => new Promise((resolve) => {
  const begin = performance.now();
  document.querySelector('.sentence details').open = true;
  requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - begin)));
})"""


@contextmanager
def viewing(run: Path) -> Iterator[tuple[str, int]]:
    """`evigraph view RUN` in another process: its link and process id."""
    command = [sys.executable, "-P", "-c", _VIEW, "view", str(run), "--port", "0", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if "http://" not in line:
            raise SystemExit("the viewer did not start")
        yield line[line.index("http://") :].strip(), process.pid
    finally:
        process.terminate()
        process.wait()


def measure(run: Path, repeats: int) -> dict[str, Any]:
    """Seconds until each page is usable, of a filter, a sort and opening a sentence, and the server's memory.

    Args:
        run: A run folder.
        repeats: Repeats of each figure, of which the median is reported.
    """
    from playwright.sync_api import sync_playwright

    browser_path = shutil.which("chromium") or shutil.which("google-chrome")
    if browser_path is None:
        raise SystemExit("Chromium was not found: install it, and put it on the PATH")
    with viewing(run) as (link, server), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(link)
        address = page.locator("table.runs tbody a").first.get_attribute("href")
        parts = urlsplit(link)
        root = f"{parts.scheme}://{parts.netloc}"
        figures: dict[str, list[float]] = {name: [] for name in _FIGURES}
        for repeat in range(repeats):
            page.goto(root)
            figures["runs"].append(_since_navigation(page))
            page.goto(f"{root}{address}", wait_until="commit")
            page.wait_for_selector(_READY)
            cases = page.locator("#found").inner_text()
            figures["table"].append(_since_navigation(page))
            figures["search"].append(page.evaluate(_FILTER, ["q", "10"]) / 1000)
            figures["filter"].append(page.evaluate(_FILTER, ["divided", "8"]) / 1000)
            page.evaluate(_FILTER, ["q", ""])
            begin = page.evaluate("performance.now()")
            page.locator("[data-sort=wrong]").dispatch_event("click")
            figures["sort"].append((page.evaluate("performance.now()") - begin) / 1000)
            # Another case each time: a cached page would be too fast.
            case = page.locator("#cases tbody a").nth(repeat).get_attribute("href")
            page.goto(f"{root}{case}")
            figures["case"].append(_since_navigation(page))
            figures["sentence"].append(page.evaluate(_OPEN) / 1000)
        charts = page.locator("[data-chart]")
        for number in range(charts.count()):
            charts.nth(number).scroll_into_view_if_needed()
            charts.nth(number).evaluate("(image) => image.decode()")
        browser.close()
        status = Path(f"/proc/{server}/status").read_text("ascii")
    memory = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    return {
        "run": str(run),
        "cases": cases,
        "first_table_seconds": round(figures["table"][0], 3),
        **{f"{name}_seconds": round(statistics.median(values), 3) for name, values in figures.items()},
        "server_peak_mb": round(memory / 1024, 1),
        "repeats": repeats,
        "load_average": round(os.getloadavg()[0], 1),
        "processors": os.cpu_count(),
    }


def _since_navigation(page: Any) -> float:
    return float(page.evaluate("performance.now()")) / 1000


def main() -> None:
    """Measure the run that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m viewer.measure", description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    sys.stdout.write(json.dumps(measure(arguments.run, arguments.repeats)) + "\n")


if __name__ == "__main__":
    main()
