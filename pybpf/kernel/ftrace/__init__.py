"""Dynamic events, filters, triggers and instances of the running kernel, and their records."""
