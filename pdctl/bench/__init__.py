"""Running endpoint -> samples -> summary: a small, truthful load on the front door of a cluster."""
