"""What the kernel's trace buffers hold: pages and lines in, typed records and text out."""
