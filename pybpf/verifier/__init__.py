"""A model of the kernel's verifier: a program and a kernel profile in, a verdict out."""
