"""Results from and to other programs: recorded outputs, exports, archives."""
