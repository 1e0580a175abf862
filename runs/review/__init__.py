"""Reviews of cases, and the pools and keys made from them."""
