"""The fast mode: a program to Python source that computes what the step mode does."""
