"""Dynamic events: their text in, values out, and what a given kernel answers to it."""
