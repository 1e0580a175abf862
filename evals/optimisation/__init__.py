"""Search for a better recipe and better prompts on one part of labelled cases, judged on the other part."""
