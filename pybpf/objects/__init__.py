"""Objects of C programs, loaded: their maps as dicts, their variables, their programs attached."""
