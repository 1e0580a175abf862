"""Prompts as files, and their loader."""

from prompts.loader import Contract, Prompt, PromptSet, Variables, load_prompts, replace_prompts
from prompts.versions import PromptError

__all__ = ("Contract", "Prompt", "PromptError", "PromptSet", "Variables", "load_prompts", "replace_prompts")
