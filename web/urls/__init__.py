"""Addresses of this website: what a URL asks for, links, sorting, and a page's place in its list."""
