"""Tests with real inference servers, which are too slow to install and run for `make test`: `make test-servers`."""
