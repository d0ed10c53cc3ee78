"""Workloads that are wrong on purpose; the comparison with the baseline must say so."""
