"""Tests with real inference servers, which install and run too slowly for `make test`: `make test-servers`."""
