"""Check, make, trace and remove the kernel's dynamic events: probes, eprobes, synthetic events."""

COMMANDS = {
    "check": "say what a kernel answers to definitions, filters and triggers",
    "trace": "record events, defined for the time it takes, and print them",
    "query": "answer a query in SQL about one event or two",
    "hist": "count the hits of an event by key",
    "strings": "print what strings a system call was given",
    "explain": "print plain commands that do what trace does",
    "filter": "show or set the filter of an event",
    "add": "make dynamic events that stay",
    "list": "list the dynamic events there are, and whose they are",
    "rm": "remove dynamic events",
    "cleanup": "remove what a tracer that was killed has left, and nothing else",
    "show": "print the record of an event, or decode recorded pages",
}
"""Each has a module of its own, which is loaded when it is asked for."""

ALIASES = {"sql": "query"}
