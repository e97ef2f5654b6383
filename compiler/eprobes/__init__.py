"""Event probes as programs on their parents: a definition in, typed expressions out."""
