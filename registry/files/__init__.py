"""Read files of other people with bounded memory: limits apply before anything is unpacked."""
