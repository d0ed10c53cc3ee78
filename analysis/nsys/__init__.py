"""Finds nsys, exports its reports, and reads the exports: the only place that knows SQLite."""
