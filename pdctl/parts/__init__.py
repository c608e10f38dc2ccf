"""What pdctl brings to hosts: its own wheels, the locks of their environments, the tiny model. Pure."""
