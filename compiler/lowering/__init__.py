"""The parts of lowering that statements are made of."""
