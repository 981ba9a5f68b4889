"""Addresses of this website: what a URL asks for, links, sorting, and where a page stands in its list."""
