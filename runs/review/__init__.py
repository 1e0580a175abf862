"""Reviews of cases and the pools and keys that are made of them."""
