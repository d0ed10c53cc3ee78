"""Adding two vectors: the first kernel that anybody writes."""
