"""running processes of hosts -> a draft cluster.yaml, and what it cannot say."""
