"""Events: record bytes and map entries -> rows."""
