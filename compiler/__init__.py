"""The ply compiler: script text and a Target in, a CompiledScript out."""
