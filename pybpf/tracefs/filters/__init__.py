"""Event filters: texts and values in, what a kernel makes of them out."""
