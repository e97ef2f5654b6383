"""Output: rows -> text in ply's layout, or JSON lines."""
