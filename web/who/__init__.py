"""Who makes a request: tokens, sessions, single sign-on, wrong passwords, and this website's own address."""
