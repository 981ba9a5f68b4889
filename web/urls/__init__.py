"""Addresses of this website: parameters of a URL, links, sorting, and a page's place in its list."""
