"""What the files of a recording are called."""

#: Reports; .qdrep until 2021.
REPORT_SUFFIXES = (".nsys-rep", ".qdrep")
#: What nsys records before it makes the report of it.
STREAM_SUFFIX = ".qdstrm"
EXPORT_SUFFIX = ".sqlite"
