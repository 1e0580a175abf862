"""Build the documentation site from the README, docs/ and the generated reference; needs the extra `docs`.

python -m tools.site [FOLDER]
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

from tools.reference import PAGES

ROOT = Path(__file__).parents[1]
_CONFIG = ROOT / "mkdocs.yml"
_LINK = re.compile(r"\]\((?:docs/|\.\./)?(?=[a-zA-Z0-9/_-]+\.(?:md|svg|png))")


def _titled(text: str) -> str:
    """Show the file that a block is written to, or what its commands need, as its title."""
    text = re.sub(r"^```(\w+) file=(\S+)$", r'```\1 title="\2"', text, flags=re.MULTILINE)
    return re.sub(r'^```(\w+) needs="(.+)"$', r'```\1 title="Needs \2"', text, flags=re.MULTILINE)


def write_sources(folder: Path) -> None:
    """Write the pages of the site, with links as they are there."""
    shutil.copytree(ROOT / "docs", folder)
    for page in folder.glob("*.md"):
        page.write_text(_titled(page.read_text("utf-8")), "utf-8")
    for name, source in (("index.md", "README.md"), ("changelog.md", "CHANGELOG.md")):
        text = (ROOT / source).read_text("utf-8")
        text = _LINK.sub("](", text)
        (folder / name).write_text(_titled(text), "utf-8")
    reference = folder / "reference"
    reference.mkdir()
    for name, generate in PAGES.items():
        (reference / name).write_text(generate() + "\n", "utf-8")


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    """Build the site in `folder/site`; broken links fail the build."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_sources(folder / "docs")
    config = yaml.safe_load(_CONFIG.read_text("utf-8"))
    (folder / "mkdocs.yml").write_text(yaml.safe_dump(config, sort_keys=False), "utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    environment = {**os.environ, "NO_COLOR": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def main() -> int:
    """Build the site, print the builder's report and the address of the first page."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "out/site")
    done = build(folder)
    sys.stdout.write(done.stdout + done.stderr)
    if done.returncode == 0:
        sys.stdout.write(f"open {folder / 'site' / 'index.html'}\n")
    return done.returncode


if __name__ == "__main__":
    raise SystemExit(main())
