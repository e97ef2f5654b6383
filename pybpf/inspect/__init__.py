"""Objects, raw programs and loaded ones in; what is in them out: as text, JSON, graphs, a page."""
