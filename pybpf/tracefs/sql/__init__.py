"""One SQL-like query: its text in, the triggers and events that answer it out."""
