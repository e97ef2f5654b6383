"""Assembler text with directives in; maps, data and programs, as an object file or raw, out."""
