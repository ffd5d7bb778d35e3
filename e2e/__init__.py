"""End-to-end lab, tests and benchmarks."""
