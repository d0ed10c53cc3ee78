"""The ``nsyslab`` commands that run and record workloads, one file per command."""
