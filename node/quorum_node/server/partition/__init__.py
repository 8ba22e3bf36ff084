"""One partition's replica: the driver around the core, appends, reads and the applied image."""
