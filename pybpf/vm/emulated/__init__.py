"""The emulated helpers, by what they are about: a machine and r1 to r5 in, r0 out."""
