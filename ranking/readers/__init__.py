"""Files of labelled sentences to examples."""
