"""The ``nsyslab`` commands of the analysis, one file per command."""
