"""Neural evidence models: one backbone, several ways to bring a query and its document together."""
