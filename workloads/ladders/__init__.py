"""The ladders: a folder each, one file per rung (see `workloads.registry`)."""
