"""Real inference servers, which take too long to install and to ask for `make test`: `make test-servers`."""
