"""Addresses of this website: parameters of a URL, links, sorting, and the position of a page in its list."""
