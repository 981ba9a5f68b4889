"""Models: their revisions, and the endpoints that answer for some of them."""
