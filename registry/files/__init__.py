"""Reading files that somebody else wrote, without being filled by them: what they unpack to is bounded beforehand."""
