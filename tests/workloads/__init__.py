"""Tests of the workloads and of the commands that run and record them."""
