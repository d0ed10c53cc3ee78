"""A frozen encoder and a decoder that is trained: two networks that need not wait in turn."""
