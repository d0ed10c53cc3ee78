"""Programs to profile: ladders of data-transfer optimisations, one file per rung."""
