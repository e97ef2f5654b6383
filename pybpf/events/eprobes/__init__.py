"""What an event probe makes of a record of its parent, worked out without the kernel."""
