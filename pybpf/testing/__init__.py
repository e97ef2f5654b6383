"""Hypothesis strategies and oracles for fuzzing whatever reads programs and scripts."""
