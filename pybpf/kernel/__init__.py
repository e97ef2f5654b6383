"""The door: everything that asks the running kernel for something, and nothing else does."""
