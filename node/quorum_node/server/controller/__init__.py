"""The active controller's shell: who asks what, when records are appended and answers leave."""
