"""Pure side of tracefs: texts of the kernel's tracing files in, values out."""
