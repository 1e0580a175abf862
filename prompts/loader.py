"""Prompts are YAML files of conversation turns; this loads, checks, hashes and fills them.

Case text is data: a variable's value is inserted once and never read as a template again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from prompts.versions import PromptError, demand_prompt, find_sources, read_yaml, unknown_prompt

Variables = Mapping[str, str]


@dataclass(frozen=True, kw_only=True, eq=False)
class Contract:
    """Variables and texts of a prompt; declared by the node that fills it.

    Attributes:
        name: Name of the prompt and of its file.
        required: Variables that its turns must use.
        optional: Variables that they may use as well.
        demonstration: Variables that each demonstration must use.
        continues: The one prompt that it may continue.
        correction: Whether it needs a correction turn.
        texts: Variables that each of its texts may use; it needs all of these texts.
    """

    name: str
    required: frozenset[str]
    optional: frozenset[str] = frozenset()
    demonstration: frozenset[str] = frozenset()
    continues: str | None = None
    correction: bool = False
    texts: Mapping[str, frozenset[str]] = field(default_factory=dict)


class Turn(BaseModel):
    """One turn of a conversation; `text` holds `${variables}`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: Literal["system", "user", "assistant"]
    text: str


class PromptFile(BaseModel):
    """A prompt file.

    Attributes:
        continues: Name of the prompt whose conversation this one continues.
        opening: Turns before the demonstrations.
        demonstration: Turns of each demonstration, if demonstrations are turns.
        demonstration_text: Text of each demonstration, if they fill `${demonstrations}` of a turn.
        closing: Turns after the demonstrations: the case itself.
        correction: The turn that quotes the `${faults}` of a reply.
        texts: Named texts; a node chooses which of them fills a variable.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    continues: str | None = None
    opening: tuple[Turn, ...] = ()
    demonstration: tuple[Turn, ...] = ()
    demonstration_text: str | None = None
    closing: tuple[Turn, ...]
    correction: str | None = None
    texts: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Prompt:
    """A loaded prompt; `sha256` is the digest of its file."""

    name: str
    version: str
    sha256: str
    file: PromptFile

    def render(self, variables: Variables, demonstrations: Sequence[Variables] = ()) -> list[tuple[str, str]]:
        """Fill the prompt: (role, text) turns, those that cases share first.

        Raises:
            PromptError: A variable that the prompt uses is missing.
        """
        text = self.file.demonstration_text
        if text is not None:
            joined = "\n\n".join(self._fill(text, one) for one in demonstrations)
            variables = {**variables, "demonstrations": joined}
        shown = [
            (turn.role, self._fill(turn.text, one))
            for one in demonstrations
            for turn in self.file.demonstration
        ]
        return [
            *((turn.role, self._fill(turn.text, variables)) for turn in self.file.opening),
            *shown,
            *((turn.role, self._fill(turn.text, variables)) for turn in self.file.closing),
        ]

    def uses(self, variable: str) -> bool:
        """Whether its turns, those of demonstrations aside, hold `${variable}`."""
        turns = (*self.file.opening, *self.file.closing)
        return any(variable in Template(turn.text).get_identifiers() for turn in turns)

    def render_correction(self, faults: str) -> str:
        """The turn that asks for a better reply.

        Raises:
            PromptError: This prompt has no correction turn.
        """
        if self.file.correction is None:
            raise PromptError(f"prompt {self.name!r} ({self.version}) has no correction turn")
        return self._fill(self.file.correction, {"faults": faults})

    def text(self, name: str, variables: Variables | None = None) -> str:
        """One of its texts, filled.

        Raises:
            PromptError: A variable that it uses is missing.
        """
        return self._fill(self.file.texts[name], variables or {})

    def _fill(self, text: str, variables: Variables) -> str:
        try:
            return Template(text).substitute(variables).strip()
        except KeyError as error:
            raise PromptError(f"prompt {self.name!r} ({self.version}) got no ${{{error.args[0]}}}") from None


@dataclass(frozen=True, slots=True)
class PromptSet:
    """Prompts of one version, by name."""

    version: str
    prompts: Mapping[str, Prompt]

    def __getitem__(self, name: str) -> Prompt:
        return self.prompts[name]

    @property
    def hashes(self) -> dict[str, str]:
        return {name: prompt.sha256 for name, prompt in self.prompts.items()}


@cache
def load_prompts(version: str, contracts: tuple[Contract, ...]) -> PromptSet:
    """Load the prompts of a system in a version by its name, such as `default`, or from the user's folder.

    Args:
        version: Name or folder.
        contracts: Of the prompts that the nodes of the system fill.

    Raises:
        PromptError: The version is unknown, or one of its files is wrong.
    """
    sources = find_sources(version, [contract.name for contract in contracts])
    prompts = {}
    for contract in contracts:
        source = demand_prompt(sources, contract.name)
        prompts[contract.name] = _load(source.file, contract, source.version)
    return PromptSet(version, prompts)


def replace_prompts(
    prompts: PromptSet, files: Mapping[str, Path], contracts: Iterable[Contract]
) -> PromptSet:
    """A version with some prompts replaced by other files.

    Args:
        prompts: The version.
        files: Files by the name of the prompt that they replace.
        contracts: Of all prompts of the system.

    Raises:
        PromptError: The prompt or the file is unknown, or the file is wrong.
    """
    by_name = {contract.name: contract for contract in contracts}
    replaced = dict(prompts.prompts)
    for name, file in files.items():
        if name not in by_name:
            raise unknown_prompt(name, by_name)
        if not file.is_file():
            raise PromptError(f"prompt {name}: no such file {str(file)!r}")
        replaced[name] = _load(file, by_name[name], str(file))
    return PromptSet(prompts.version, replaced)


def _load(source: Traversable, contract: Contract, version: str) -> Prompt:
    content, values = read_yaml(source)
    try:
        file = PromptFile.model_validate(values)
    except ValidationError as error:
        raise PromptError(f"prompt {source}: {' '.join(str(error).split())}") from None
    _check(file, contract, str(source))
    return Prompt(contract.name, version, hashlib.sha256(content).hexdigest(), file)


def _check(file: PromptFile, contract: Contract, source: str) -> None:
    """Check a prompt's variables against those that its node provides and requires."""
    if file.continues not in (None, contract.continues):
        allowed = contract.continues or "nothing"
        raise PromptError(f"prompt {source}: continues {file.continues!r}; it can continue {allowed}")
    if contract.correction and file.correction is None:
        raise PromptError(f"prompt {source}: needs a 'correction' that quotes the ${{faults}}")
    turns = _variables(source, (turn.text for turn in (*file.opening, *file.closing)))
    demonstrations = frozenset({"demonstrations"} if file.demonstration_text is not None else ())
    _compare(source, "turns", turns, contract.required | demonstrations, contract.optional)
    if file.demonstration_text is not None or file.demonstration:
        texts = [file.demonstration_text or "", *(turn.text for turn in file.demonstration)]
        _compare(source, "demonstration", _variables(source, texts), contract.demonstration)
    if file.correction is not None:
        _compare(source, "correction", _variables(source, [file.correction]), frozenset({"faults"}))
    _check_texts(file, contract, source)


def _check_texts(file: PromptFile, contract: Contract, source: str) -> None:
    if missing := [name for name in contract.texts if name not in file.texts]:
        raise PromptError(f"prompt {source}: its texts lack {missing[0]!r}")
    for name, text in file.texts.items():
        if name not in contract.texts:
            known = ", ".join(contract.texts) or "none"
            raise PromptError(f"prompt {source}: unknown text {name!r}; known: {known}")
        _compare(source, f"text {name!r}", _variables(source, [text]), frozenset(), contract.texts[name])


def _variables(source: str, texts: Iterable[str]) -> frozenset[str]:
    found: set[str] = set()
    for text in texts:
        template = Template(text)
        if not template.is_valid():
            raise PromptError(f"prompt {source}: a '$' that starts no ${{variable}}; write '$$' for a dollar")
        found.update(template.get_identifiers())
    return frozenset(found)


def _compare(
    source: str,
    part: str,
    used: frozenset[str],
    required: frozenset[str],
    optional: frozenset[str] = frozenset(),
) -> None:
    if missing := sorted(required - used):
        raise PromptError(f"prompt {source}: its {part} must use ${{{missing[0]}}}")
    if unknown := sorted(used - required - optional):
        known = ", ".join(sorted(required | optional))
        raise PromptError(f"prompt {source}: its {part} use unknown ${{{unknown[0]}}}; known: {known}")
