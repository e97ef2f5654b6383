"""Run programs without a kernel: an interpreter, emulated maps and helpers, recorded events."""
