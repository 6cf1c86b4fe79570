"""The test harness: one PostgreSQL a session, one database a process, two roles, one clock."""
