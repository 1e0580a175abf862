"""Prompts as files, and their loader."""

from prompts.loader import Contract, Prompt, PromptError, PromptSet, Variables, load_prompts, replace_prompts

__all__ = ("Contract", "Prompt", "PromptError", "PromptSet", "Variables", "load_prompts", "replace_prompts")
