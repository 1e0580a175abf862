"""Terms of a request and its reply: messages, limits, costs, errors, names of models."""
