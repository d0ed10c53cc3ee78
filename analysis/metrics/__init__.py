"""One metric per file; each is a pure function of a `Trace`."""
