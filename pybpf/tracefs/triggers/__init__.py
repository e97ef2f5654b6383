"""Triggers of events: texts and values in, what a kernel makes of them out; its hist files read."""
