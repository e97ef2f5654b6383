"""The instruction set: bytes or assembler text in, programs of named instructions out; and back."""
