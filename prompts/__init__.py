"""Prompts as files, and their loader."""

from prompts.loader import OPTIONAL, Prompt, PromptError, PromptSet, load_prompts, replace_prompts

__all__ = ("OPTIONAL", "Prompt", "PromptError", "PromptSet", "load_prompts", "replace_prompts")
