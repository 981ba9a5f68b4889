"""Accounts, roles, tokens and the audit trail."""
